"""The picture of bench/results/measured.md as SVG text, without any library."""
import html
import math

COLOURS = {"streaming": "#01665e", "row reduction": "#b35806", "full reduction": "#8073ac", "column reduction": "#c51b7d"}
LEFT, TOP, WIDTH, HEIGHT = 60, 50, 640, 300
LOW, HIGH = 0.5, 1.6


def place(size, ratio, number):
    x = LEFT + WIDTH * (math.log10(size / 1e6) / 4)
    y = TOP + number * (HEIGHT + 60) + HEIGHT * (1 - math.log(ratio / LOW) / math.log(HIGH / LOW))
    return x, min(max(y, TOP + number * (HEIGHT + 60)), TOP + number * (HEIGHT + 60) + HEIGHT)


def text(x, y, words, anchor="middle", size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222222">{html.escape(words)}</text>'


def mark(row, ratio, number):
    """A circle where the model was fitted to the case, a square where it was held out."""
    x, y = place(row["ideal"], ratio, number)
    colour = COLOURS.get(row["kind"], "#444444")
    title = f"<title>{html.escape(row['name'])}: {ratio:.2f}</title>"
    if row["held_out"]:
        return (f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="white" stroke="{colour}" '
                f'stroke-width="2">{title}</rect>')
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" fill-opacity="0.85">{title}</circle>'


def panel(rows, key, title, number):
    top = TOP + number * (HEIGHT + 60)
    parts = [text(LEFT, top - 8, title, "start", 13)]
    for ratio in (0.5, 0.75, 0.9, 1.0, 1.05, 1.15, 1.5):
        _, y = place(1e6, ratio, number)
        colour = "#888888" if ratio == 1 else "#dddddd"
        parts += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="{colour}"/>',
                  text(LEFT - 6, y + 4, f"{ratio:g}", "end", 10)]
    for power in range(5):
        x, _ = place(10.0**(power + 6), 1, number)
        parts += [f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + HEIGHT}" stroke="#eeeeee"/>',
                  text(x, top + HEIGHT + 14, f"{10**power:,} MB", size=10)]
    return parts + [mark(row, row[key], number) for row in rows if key in row]


def plot(rows):
    kinds = sorted({row["kind"] for row in rows})
    both = any("ratio_before" in row for row in rows)
    parts, x = [], LEFT
    for kind in kinds:
        parts += [f'<circle cx="{x}" cy="18" r="4" fill="{COLOURS.get(kind, "#444444")}"/>', text(x + 8, 22, kind, "start")]
        x += 30 + 7 * len(kind)
    parts.append(text(x, 22, "squares: held out", "start"))
    if both:
        parts += panel(rows, "ratio_before", "before: (predicted + constant) ÷ fastest published", 0)
    parts += panel(rows, "ratio", "now: (predicted + constant) ÷ fastest published", 1 if both else 0)
    height = TOP + (2 if both else 1) * (HEIGHT + 60)
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
                      'font-family="sans-serif">', '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"
