"""Makes the example files again, byte for byte: report.pdf, sales.xlsx and the source tree in src/.

Everything in them is invented for this project: the bicycle-sharing scheme of a town that does
not exist. Needs reportlab and openpyxl; the files are committed, so nobody who only runs the
example needs this script.

    python examples/first-run/make_files.py [FOLDER]
"""

from __future__ import annotations

import io
import random
import re
import sys
import zipfile
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.styles import Font
from reportlab.graphics.charts.barcharts import VerticalBarChart
from reportlab.graphics.shapes import Drawing
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import mm
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

HERE = Path(__file__).resolve().parent
STATIONS = ("Harbour", "Old Mill", "Station North", "University", "Market Hall", "Lakeside")
DISTRICTS = ("North", "East", "South", "West")
PRODUCTS = {"day pass": 9.5, "month pass": 24.0, "year pass": 139.0, "helmet": 32.0, "repair kit": 14.9}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# ---------------------------------------------------------------- numbers


def rides() -> list[list[int]]:
    """Rides by month (rows) and station (columns); more in summer, the same at every run."""
    dice = random.Random(2025)
    season = (0.42, 0.45, 0.7, 0.95, 1.25, 1.42, 1.5, 1.46, 1.2, 0.95, 0.62, 0.4)
    base = (5200, 3100, 6900, 8200, 4700, 2600)
    return [[round(b * s * dice.uniform(0.93, 1.07)) for b in base] for s in season]


def number(value: float) -> str:
    return f"{value:,.0f}"


# ---------------------------------------------------------------- report.pdf


def make_report(path: Path) -> None:
    """A yearly report of six pages: prose, grid tables, a chart."""
    document = SimpleDocTemplate(
        str(path),
        pagesize=A4,
        leftMargin=22 * mm,
        rightMargin=22 * mm,
        topMargin=20 * mm,
        bottomMargin=20 * mm,
        title="Brookhaven Bike Share: Report for 2025",
        author="Brookhaven Bike Share (invented)",
        invariant=1,
    )
    flow: list[Any] = []
    for part in (_cover(), _rides(), _stations(), _fleet(), _money(), _outlook()):
        flow += [*part, PageBreak()]
    document.build(flow[:-1], onFirstPage=_footer, onLaterPages=_footer)


def _footer(canvas: Any, document: Any) -> None:
    canvas.setFont("Helvetica", 8)
    canvas.drawString(22 * mm, 12 * mm, "Brookhaven Bike Share, report for 2025")
    canvas.drawRightString(A4[0] - 22 * mm, 12 * mm, f"page {document.page}")


_STYLES = getSampleStyleSheet()


def _text(text: str, style: str = "BodyText") -> list[Any]:
    return [Paragraph(text, _STYLES[style]), Spacer(1, 2 * mm)]


def _grid(rows: list[list[str]], *, words: int = 1) -> list[Any]:
    """A table with lines; its first `words` columns hold words, the others numbers."""
    table = Table(rows, repeatRows=1, hAlign="LEFT")
    look = [
        ("GRID", (0, 0), (-1, -1), 0.5, colors.grey),
        ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke),
        ("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold"),
        ("FONTSIZE", (0, 0), (-1, -1), 9),
        ("ALIGN", (words, 0), (-1, -1), "RIGHT"),
    ]
    table.setStyle(TableStyle(look))
    return [table, Spacer(1, 4 * mm)]


def _cover() -> list[Any]:
    total = sum(map(sum, rides()))
    return [
        *_text("Brookhaven Bike Share", "Title"),
        *_text("Report for 2025", "Heading1"),
        *_text(
            "Brookhaven Bike Share rents bicycles at six stations of the town of Brookhaven. The town, the "
            "scheme and every number in this report are invented; the report exists so that programs which "
            "read documents have something honest to read."
        ),
        *_text("The year in short", "Heading2"),
        *_text(
            f"People made <b>{number(total)}</b> rides in 2025. July was the strongest month, December the "
            "weakest. University is the busiest station of the network, Lakeside the quietest. The fleet "
            "grew from 610 to 684 bicycles, and the share of bicycles out of service fell from 7.1 to 5.2 per cent."
        ),
        *_text("Contents", "Heading2"),
        *_grid(
            [
                ["Page", "Chapter"],
                ["2", "Rides by month and station"],
                ["3", "The stations"],
                ["4", "Fleet and repairs"],
                ["5", "Income and costs"],
                ["6", "What comes next"],
            ],
            words=2,
        ),
    ]


def _rides() -> list[Any]:
    data = rides()
    rows = [["Month", *STATIONS, "Total"]]
    rows += [[m, *map(number, r), number(sum(r))] for m, r in zip(MONTHS, data, strict=True)]
    columns = [sum(r[i] for r in data) for i in range(len(STATIONS))]
    rows.append(["Year", *map(number, columns), number(sum(columns))])
    chart = VerticalBarChart()
    chart.x, chart.y, chart.width, chart.height = 30, 20, 400, 110
    chart.data = [[sum(r) for r in data]]
    chart.categoryAxis.categoryNames = list(MONTHS)
    chart.valueAxis.valueMin = 0
    chart.bars[0].fillColor = colors.steelblue
    drawing = Drawing(450, 145)
    drawing.add(chart)
    return [
        *_text("Rides by month and station", "Heading1"),
        *_text(
            "A ride counts where it begins. Rides shorter than one minute are left out: they are mostly "
            "people who put a bicycle back because its saddle or a tyre did not please them."
        ),
        *_grid(rows),
        *_text("Rides of all stations by month:"),
        drawing,
    ]


def _stations() -> list[Any]:
    docks = (42, 30, 64, 72, 38, 24)
    opened = (2016, 2018, 2016, 2016, 2019, 2022)
    data = rides()
    rows = [["Station", "Opened", "Docks", "Rides", "Rides per dock and day"]]
    for i, name in enumerate(STATIONS):
        total = sum(r[i] for r in data)
        rows.append([name, str(opened[i]), str(docks[i]), number(total), f"{total / docks[i] / 365:.2f}"])
    return [
        *_text("The stations", "Heading1"),
        *_text(
            "Station North and University carry half of all rides. Their docks were full on 61 evenings of "
            "the year, so that bicycles had to be brought back by van. Lakeside opened in 2022 and is still "
            "growing: its rides rose by a fifth against the year before."
        ),
        *_grid(rows),
        *_text("Moving bicycles", "Heading2"),
        *_text(
            "The van drove 8,412 kilometres, 11 per cent fewer than in 2024, because bicycles that are put "
            "back at a half-empty station now earn ten free minutes. On average 23 people a day take the offer."
        ),
    ]


def _fleet() -> list[Any]:
    rows = [
        ["Part", "Repairs", "Cost (EUR)", "Hours"],
        ["Tyre", "1,214", "9,712", "607"],
        ["Brake", "803", "8,030", "522"],
        ["Chain", "477", "6,201", "286"],
        ["Lock", "219", "10,950", "241"],
        ["Light", "198", "2,376", "69"],
        ["Saddle", "96", "1,632", "29"],
        ["Sum", "3,007", "38,901", "1,754"],
    ]
    return [
        *_text("Fleet and repairs", "Heading1"),
        *_text(
            "On 31 December the fleet had 684 bicycles, 41 of them with an electric motor. 5.2 per cent were "
            "out of service on an average day. Tyres are repaired most often; the most expensive part is the "
            "lock, whose new model arrived in September and has not failed since."
        ),
        *_grid(rows),
        *_text(
            "Eleven bicycles were stolen, nine of them came back. The workshop trained two apprentices, who "
            "finished their examination in June."
        ),
    ]


def _money() -> list[Any]:
    rows = [
        ["Item", "2024 (EUR)", "2025 (EUR)"],
        ["Passes", "612,400", "688,150"],
        ["Single rides", "201,900", "214,730"],
        ["Town's contribution", "150,000", "150,000"],
        ["Income", "964,300", "1,052,880"],
        ["Staff", "471,200", "488,600"],
        ["Repairs and parts", "131,800", "118,420"],
        ["Vans and energy", "88,300", "79,950"],
        ["Software and rent", "142,000", "146,300"],
        ["Costs", "833,300", "833,270"],
        ["Result", "131,000", "219,610"],
    ]
    return [
        *_text("Income and costs", "Heading1"),
        *_text(
            "Income grew by 9.2 per cent while costs stayed where they were. Passes bring two thirds of the "
            "income; the single sales are in the spreadsheet that comes with this report."
        ),
        *_grid(rows),
        *_text("The result is kept for the two new stations of 2026 (see the next page)."),
    ]


def _outlook() -> list[Any]:
    rows = [
        ["Quarter", "Plan", "Budget (EUR)"],
        ["Q1", "Replace the 88 oldest bicycles", "61,600"],
        ["Q2", "Open the station Hospital, 36 docks", "74,000"],
        ["Q3", "Open the station Science Park, 48 docks", "92,500"],
        ["Q4", "Winter tyres for a third of the fleet", "12,300"],
    ]
    return [
        *_text("What comes next", "Heading1"),
        *_text("For 2026 four things are planned. All are paid from the result of 2025."),
        *_grid(rows, words=2),
        *_text(
            "Questions and corrections are welcome at the town hall, room 12, on Thursdays from two to five. "
            "Since nobody in Brookhaven exists, the room is usually quiet."
        ),
    ]


# ---------------------------------------------------------------- sales.xlsx


def sales() -> list[tuple[date, str, str, int, float]]:
    """420 sales: day, district, product, quantity, price."""
    dice = random.Random(420)
    start = date(2025, 1, 1)
    names = list(PRODUCTS)
    found = []
    for _ in range(420):
        product = dice.choices(names, weights=(40, 25, 8, 12, 15))[0]
        day = start + timedelta(days=dice.randrange(365))
        found.append((day, dice.choice(DISTRICTS), product, dice.randint(1, 9), PRODUCTS[product]))
    return sorted(found)


def make_sales(path: Path) -> None:
    """Two sheets: the sales with a formula a row, and sums by district as formulas, values cached."""
    rows = sales()
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Sales"
    sheet.append(["Date", "District", "Product", "Quantity", "Price", "Amount"])
    values: dict[str, float] = {}
    for at, (day, district, product, quantity, price) in enumerate(rows, 2):
        sheet.append([day, district, product, quantity, price, f"=D{at}*E{at}"])
        values[f"Sales!F{at}"] = round(quantity * price, 2)
    last = len(rows) + 1
    summary = book.create_sheet("Summary")
    summary.append(["District", "Amount", "Sales"])
    for at, district in enumerate(DISTRICTS, 2):
        amount = f"=SUMIF(Sales!B2:B{last},A{at},Sales!F2:F{last})"
        summary.append([district, amount, f"=COUNTIF(Sales!B2:B{last},A{at})"])
        values[f"Summary!B{at}"] = round(sum(q * p for _, d, _, q, p in rows if d == district), 2)
        values[f"Summary!C{at}"] = sum(1 for r in rows if r[1] == district)
    end = len(DISTRICTS) + 1
    summary.append(["Total", f"=SUM(B2:B{end})", f"=SUM(C2:C{end})"])
    values[f"Summary!B{end + 1}"] = round(sum(q * p for *_, q, p in rows), 2)
    values[f"Summary!C{end + 1}"] = len(rows)
    for each in (sheet, summary):
        for cell in each[1]:
            cell.font = Font(bold=True)
        each.freeze_panes = "A2"
        each.column_dimensions["A"].width = 12
    book.properties.creator = "Brookhaven Bike Share (invented)"
    book.properties.created = book.properties.modified = datetime(2026, 1, 15, 9, 0)
    raw = io.BytesIO()
    book.save(raw)
    path.write_bytes(_finished(raw.getvalue(), {"Sales": 1, "Summary": 2}, values))


def _finished(data: bytes, sheets: dict[str, int], values: dict[str, float]) -> bytes:
    """The workbook with the value of every formula stored beside it (as a spreadsheet program
    does) and with fixed times in the archive, so that it is the same at every run."""
    done = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(done, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(source.namelist()):
            body = source.read(name)
            for title, index in sheets.items():
                if name == f"xl/worksheets/sheet{index}.xml":
                    body = _with_values(body.decode(), title, values).encode()
            if name == "docProps/core.xml":
                stamp = "2026-01-15T09:00:00Z"
                body = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>" + stamp.encode(), body)
            info = zipfile.ZipInfo(name, (2026, 1, 15, 9, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, body)
    return done.getvalue()


def _with_values(xml: str, title: str, values: dict[str, float]) -> str:
    def fill(found: re.Match[str]) -> str:
        return f"{found[1]}<v>{values[f'{title}!{found[2]}']}</v></c>"

    return re.sub(r'(<c r="([A-Z]+\d+)"[^>]*><f>[^<]*</f>)<v ?/?>(?:</v>)?</c>', fill, xml)


# ---------------------------------------------------------------- src/

SOURCES = {
    "README.md": """\
        # dockwatch

        Counts free docks and tells the van where to go. A small invented program: something to search in.
        """,
    "dockwatch/__init__.py": """\
        \"\"\"Where are free docks, and where should the van go next?\"\"\"
        """,
    "dockwatch/models.py": """\
        \"\"\"What the program knows about the world.\"\"\"

        from dataclasses import dataclass


        @dataclass(frozen=True)
        class Station:
            name: str
            docks: int
            bikes: int

            @property
            def free(self) -> int:
                return self.docks - self.bikes
        """,
    "dockwatch/plan.py": """\
        \"\"\"Decides the next trip of the van.\"\"\"

        from .models import Station

        VAN_CAPACITY = 14


        def next_trip(stations: list[Station]) -> tuple[str, str, int]:
            \"\"\"From the fullest to the emptiest station, as many bikes as the van takes.\"\"\"
            full = min(stations, key=lambda s: s.free)
            empty = max(stations, key=lambda s: s.free)
            # TODO: a station that is about to be full counts as full
            return full.name, empty.name, min(VAN_CAPACITY, full.bikes // 2, empty.free)
        """,
    "dockwatch/load.py": """\
        \"\"\"Reads the stations from a CSV file.\"\"\"

        import csv
        from pathlib import Path

        from .models import Station


        def load(path: Path) -> list[Station]:
            with path.open(newline="", encoding="utf-8") as stream:
                rows = csv.DictReader(stream)
                # TODO: report the line of a broken number
                return [Station(r["name"], int(r["docks"]), int(r["bikes"])) for r in rows]
        """,
    "dockwatch/main.py": """\
        \"\"\"Prints the next trip.\"\"\"

        import sys
        from pathlib import Path

        from .load import load
        from .plan import next_trip


        def main() -> None:
            source, target, count = next_trip(load(Path(sys.argv[1])))
            print(f"{count} bikes from {source} to {target}")


        if __name__ == "__main__":
            main()
        """,
    "data/stations.csv": """\
        name,docks,bikes
        Harbour,42,12
        Old Mill,30,29
        Station North,64,63
        University,72,20
        Market Hall,38,19
        Lakeside,24,5
        """,
    "config/settings.json": """\
        {
          "refresh_seconds": 60,
          "van": {"capacity": 14, "driver": "on call"},
          "warn_below_free_docks": 3
        }
        """,
    "scripts/refresh.sh": """\
        #!/bin/sh
        # Prints the plan once a minute. TODO: stop when the file has not changed for an hour.
        while true; do
            python -m dockwatch.main data/stations.csv
            sleep 60
        done
        """,
    "tests/test_plan.py": """\
        from dockwatch.models import Station
        from dockwatch.plan import next_trip


        def test_the_van_goes_from_the_fullest_to_the_emptiest():
            stations = [Station("A", 10, 10), Station("B", 10, 1), Station("C", 10, 5)]
            assert next_trip(stations) == ("A", "B", 5)
        """,
}


def make_sources(folder: Path) -> None:
    """Ten small files with something to find in them."""
    for name, text in SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [line.removeprefix("        ") for line in text.splitlines()]
        path.write_bytes(("\n".join(lines).rstrip() + "\n").encode())


def main(folder: Path = HERE) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    make_report(folder / "report.pdf")
    make_sales(folder / "sales.xlsx")
    make_sources(folder / "src")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
