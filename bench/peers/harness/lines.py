"""The result file: one JSON object a line, appended as the measurement goes."""
import json


def read_lines(path):
    """The objects of a result file, none where there is no file. A line that was cut off is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def append(path, entry):
    with open(path, "a") as file:
        # A line that an earlier call left unfinished must not swallow this one.
        file.write(("\n" if ends_inside_a_line(path) else "") + json.dumps(entry) + "\n")


def ends_inside_a_line(path):
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def read_measurements(paths):
    """{gpu: {"sessions": {name: line}, "cases": {case: {peer: line}}}}, the last whole measurement of each case."""
    found = {}
    for path in paths:
        sessions, pending = {}, {}
        for line in read_lines(path):
            if line["kind"] == "session":
                sessions[line["session"]] = line
            elif line["kind"] == "result":
                pending.setdefault((line["session"], line["case"]), {})[line["peer"]] = line
            elif line["session"] in sessions:
                group = found.setdefault(sessions[line["session"]]["gpu"], {"sessions": {}, "cases": {}})
                group["sessions"][line["session"]] = sessions[line["session"]]
                group["cases"][line["case"]] = pending.pop((line["session"], line["case"]), {})
    for group in found.values():
        group["cases"] = dict(sorted(group["cases"].items(),
                                     key=lambda item: min(line["place"] for line in item[1].values())))
    return found
