"""What a program prints as one JSON object."""
import json
import subprocess


def printed(command, log, seconds):
    """Runs the command, its standard error to the end of the file `log`: its exit status and what it printed, or
    (None, {"error": why there is nothing})."""
    command = list(map(str, command))
    try:
        with open(log, "a") as errors:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=seconds,
                                  check=False)
    except subprocess.TimeoutExpired:
        return None, {"error": f"no answer in {seconds:.0f} s"}
    except OSError as error:
        return None, {"error": f"{command[0]}: {error.strerror}"}
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return None, {"error": f"exit status {done.returncode}, no JSON object: {done.stdout[-300:]!r}"}
    return done.returncode, document
