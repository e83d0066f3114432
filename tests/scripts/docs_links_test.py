#!/usr/bin/env python3
"""Every relative link of the pages leads to a file that exists, and to a heading of it."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def text_of(page):
    """Without code, fenced or indented."""
    return re.sub(r"^```.*?^```|^    .*?$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        self.assertGreater(len(PAGES), 20)
        for page in PAGES:
            for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
                if target.startswith("http"):
                    continue
                file, _, anchor = target.partition("#")
                linked = (page.parent / file).resolve() if file else page
                self.assertTrue(linked.exists(), f"{page.name} links to {target}")
                if anchor:
                    self.assertIn(anchor, anchors_of(linked), f"{page.name} links to {target}")


if __name__ == "__main__":
    unittest.main()
