#!/usr/bin/env python3
"""Numbers the parts of docs/images/viewer.png for docs/guides/read-a-timeline.md: number_picture.py IN PAGE OUT. Needs Pillow.

PAGE is the interactive page of the same trace (view --report): its tasks and bubbles say where the parts are. The picture has
1600 x 900 pixels and shows a run of two lanes, measured above simulated. Look at the result after a change of the window.
"""

import json
import sys

from PIL import Image, ImageDraw, ImageFont

LEFT, RIGHT = 132, 1259  # of the time axis, in pixels
BY_CAUSE = (1404, 414)  # the heading in the panel at the right
TABLES = (330, 701)  # beside the groups of tables


def page_data(path):
    """The JSON in a page."""
    text = open(path, encoding="utf-8").read()
    begin = text.index('id="data">') + len('id="data">')
    return json.loads(text[begin : text.index("</script>", begin)])


def tasks_of(data, timeline):
    """(lane, kind, start, end) of the tasks of a timeline; its copies and kernels are left out."""
    packed = data["timelines"][timeline]
    tasks, i = [], 0
    for row in packed["rows"]:
        time = 0
        for _ in range(row["tasks"]):
            start = time + packed["start"][i]
            time = start + packed["length"][i]
            kind = data["kinds"][data["names"]["kind"][packed["name"][i]]]["name"]
            if not row["copies"] and not row.get("kernels"):
                tasks.append((row["lane"], kind, start, time))
            i += 1
    return tasks


def bubbles_of(data):
    """(lane, cause, start, end) of the measured bubbles."""
    packed = data["timelines"][0]["bubbles"]
    causes = [cause["name"] for cause in data["bubbleCauses"]]
    return [
        (lane, causes[cause], start, start + length)
        for lane, start, length, cause in zip(packed["lane"], packed["start"], packed["length"], packed["cause"])
    ]


def rows_of(picture, data, x_of):
    """Top and bottom of the four rows of tasks: the runs of the forwards' colour in a column that only a forward fills."""
    color = next(kind["color"] for kind in data["kinds"] if kind["name"] == "forward")
    wanted = tuple(int(color[k : k + 2], 16) for k in (1, 3, 5))
    rows = {}
    for timeline in (0, 1):
        forwards = [task for task in tasks_of(data, timeline) if task[1] == "forward"]
        for lane in (0, 1):
            _, _, start, _ = max((task for task in forwards if task[0] == lane), key=lambda task: task[3] - task[2])
            x = int(x_of(start)) + 3
            ys = [y for y in range(picture.height) if picture.getpixel((x, y)) == wanted]
            top = None
            for y, after in zip(ys, ys[1:] + [picture.height * 2]):
                top = y if top is None else top
                if after - y > 10:  # less is a label
                    rows[top] = y + 1
                    top = None
    height = max((bottom - top for top, bottom in rows.items()), default=0)
    rows = {top: bottom for top, bottom in rows.items() if bottom - top >= height - 2}
    if len(rows) != 4:
        sys.exit(f"number_picture: {len(rows)} rows of tasks instead of 4; is this the picture of this page, 1600 x 900?")
    return sorted(rows.items())


def longest(parts, lane, fits):
    """Start and end of the longest part of the lane that fits."""
    found = max((part for part in parts if part[0] == lane and fits(part[1])), key=lambda part: part[3] - part[2])
    return found[2], found[3]


def main():
    picture = Image.open(sys.argv[1]).convert("RGB")
    data = page_data(sys.argv[2])
    first, last = data["range"]

    def x_of(time):
        return LEFT + (time - first) / (last - first) * (RIGHT - LEFT)

    def middle(part):
        return (x_of(part[0]) + x_of(part[1])) / 2

    (top0, bottom0), (top1, bottom1), (top2, _), (_, bottom3) = rows_of(picture, data, x_of)
    tasks, bubbles = tasks_of(data, 0), bubbles_of(data)
    fill = middle(longest(bubbles, 1, lambda cause: cause == "waits for the previous partition"))
    wait = middle(longest(bubbles, 0, lambda cause: cause == "waits for the next partition"))
    recompute = middle(min((start, end) for lane, kind, start, end in tasks if lane == 0 and kind == "recompute"))
    loss = middle(longest(tasks, 1, lambda kind: kind == "loss"))
    done_lane = max((part for part in bubbles if part[1] == "lane done"), key=lambda part: part[3] - part[2])[0]
    done = middle(longest(bubbles, done_lane, lambda cause: cause == "lane done"))
    optimizer = middle(longest(tasks, 0, lambda kind: kind == "optimizer"))
    bound = x_of(data["timelines"][1]["bound"][0])
    between = (bottom0 + top1) / 2
    done_y = (bottom0 if done_lane == 0 else bottom1) - 25
    # Centre of each disc and end of its line. The guide lists the parts in this order.
    labels = [
        ((1090, 52), None),  # the answer
        ((700, top0 - 167), None),  # means of the compared steps
        ((560, top0 - 100), (460, top0 - 96)),  # strip of steps
        ((118, top0 + 4), None),  # lane of the measured timeline
        ((fill - 12, between), (fill, top1 + 25)),  # fill
        ((wait, between), (wait, bottom0 - 20)),  # the long wait
        ((recompute + 20, between), (recompute, bottom0 - 12)),  # recompute
        ((loss - 30, bottom1 - 10), (loss, bottom1 - 20)),  # loss
        ((done - 30, done_y + 22), (done, done_y)),  # lane done
        ((min(optimizer + 20, RIGHT - 16), between), (optimizer, bottom0 - 10)),  # optimizer
        ((118, top2 + 4), None),  # simulated timeline
        ((bound - 152, top2 - 18), None),  # lower bound
        ((640, bottom3 + 28), None),  # memory
        (BY_CAUSE, None),
        (TABLES, None),
    ]
    draw = ImageDraw.Draw(picture)
    font = ImageFont.truetype("DejaVuSans-Bold.ttf", 17)
    for number, ((x, y), end) in enumerate(labels, 1):
        if end:
            draw.line([(x, y), end], fill="#b00020", width=3)
        draw.ellipse([x - 15, y - 15, x + 15, y + 15], fill="#b00020", outline="white", width=2)
        draw.text((x, y), str(number), fill="white", font=font, anchor="mm")
    picture.quantize(256, dither=Image.Dither.NONE).save(sys.argv[3], optimize=True)


main()
