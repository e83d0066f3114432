#!/usr/bin/env python3
"""Numbers the parts of docs/images/viewer.png for docs/guides/read-a-timeline.md: number_picture.py IN OUT. Needs Pillow."""

import sys

from PIL import Image, ImageDraw, ImageFont

# Centre of each disc and end of its line, in pixels of 1600 x 900. The guide lists the parts in this order. Look at the picture
# after a change: the places are those of the demo's timeline.
LABELS = [
    ((700, 78), None),           # means of the compared steps
    ((900, 130), (860, 140)),    # strip of steps
    ((118, 244), None),          # lane of the measured timeline
    ((150, 318), (170, 345)),    # fill
    ((467, 318), (467, 285)),    # the long wait
    ((610, 318), (610, 295)),    # recompute
    ((427, 372), (457, 358)),    # loss
    ((1180, 378), (1205, 350)),  # lane done
    ((1256, 330), (1240, 300)),  # optimizer
    ((118, 460), None),          # simulated timeline
    ((1015, 430), (1035, 430)),  # lower bound
    ((640, 624), None),          # memory
    ((1404, 400), None),         # bubble by cause
    ((900, 714), None),          # tables
]
picture = Image.open(sys.argv[1]).convert("RGB")
draw = ImageDraw.Draw(picture)
font = ImageFont.truetype("DejaVuSans-Bold.ttf", 17)
for number, ((x, y), end) in enumerate(LABELS, 1):
    if end:
        draw.line([(x, y), end], fill="#b00020", width=3)
    draw.ellipse([x - 15, y - 15, x + 15, y + 15], fill="#b00020", outline="white", width=2)
    draw.text((x, y), str(number), fill="white", font=font, anchor="mm")
picture.quantize(256, dither=Image.Dither.NONE).save(sys.argv[2], optimize=True)
