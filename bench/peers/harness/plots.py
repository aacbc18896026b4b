"""The report's pictures as SVG text, without any library."""
import html
import math

COLOURS = {"eager": "#9e9e9e", "compile": "#e08214", "autotune": "#b35806", "xla": "#8073ac",
           "ours-predicted": "#80cdc1", "ours-tuned": "#01665e"}
FALLBACK = "#444444"
ROW, LEFT, WIDTH, TOP = 15, 340, 560, 56


def text(x, y, words, anchor="start", size=11, colour="#222222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">'
            f"{html.escape(words)}</text>")


def legend(peers, y):
    parts, x = [], LEFT
    for peer in peers:
        parts += [f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{COLOURS.get(peer, FALLBACK)}"/>', text(x + 8, y, peer)]
        x += 24 + 7 * len(peer)
    return parts


def document(height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{height}" '
                      f'viewBox="0 0 {LEFT + WIDTH + 40} {height}" font-family="sans-serif">',
                      '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def dots(title, rows, peers, ticks, place, mark=None):
    """A line for each of rows = [(label, {peer: value})] with a dot for each peer; place(value) is 0 (left) to 1."""
    height = TOP + ROW * len(rows) + 30
    parts = [text(12, 20, title, size=14), *legend(peers, 42)]
    bottom = TOP + ROW * len(rows)
    for value, words in ticks:
        x = LEFT + WIDTH * place(value)
        colour = "#888888" if value == mark else "#dddddd"
        parts += [f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>',
                  text(x, bottom + 14, words, "middle")]
    for number, (label, values) in enumerate(rows):
        y = TOP + ROW * number + ROW / 2
        parts += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#f0f0f0"/>',
                  text(LEFT - 8, y + 4, label, "end")]
        parts += [f'<circle cx="{LEFT + WIDTH * min(1.0, max(0.0, place(values[peer]))):.1f}" cy="{y:.1f}" r="4" '
                  f'fill="{COLOURS.get(peer, FALLBACK)}" fill-opacity="0.85"><title>{html.escape(label)}, '
                  f"{html.escape(peer)}: {values[peer]:.3g}</title></circle>" for peer in peers if peer in values]
    return document(height, parts)


def shares(title, rows, peers):
    """Shares of the copy bandwidth, 0 to 120 %."""
    ticks = [(tick / 100, f"{tick} %") for tick in range(0, 121, 20)]
    return dots(title, rows, peers, ticks, lambda value: value / 1.2, mark=1.0)


def ratios(title, rows, peers):
    """Ratios of times from 1/8 to 16 on a logarithmic axis."""
    ticks = [(2.0**power, f"{2.0**power:g}") for power in range(-3, 5)]
    return dots(title, rows, peers, ticks, lambda value: (math.log2(value) + 3) / 7, mark=1.0)
