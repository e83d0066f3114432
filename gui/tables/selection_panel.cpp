#include "gui/tables/selection_panel.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QTreeWidget>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr int kSectionGap = 8;  // pixels
}  // namespace

SelectionPanel::SelectionPanel(QWidget* parent)
    : QWidget(parent),
      emptyTitle_(tr("Nothing is selected")),
      emptyText_(tr("Click a task, a bubble, a lane's name, the space beside its copies, or a range of a thread or "
                    "stream.")),
      title_(new QLabel(this)),
      where_(new QLabel(this)),
      text_(new QLabel(this)),
      link_(new QLabel(this)),
      table_(named(new QTreeWidget(this), tr("Facts about the selection"))) {
    setAccessibleName(tr("Selection"));
    QFont bold = font();
    bold.setBold(true);
    title_->setFont(bold);
    for (QLabel* label : {title_, where_, text_}) {
        label->setWordWrap(true);
        label->setTextFormat(Qt::PlainText);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    }
    link_->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
    link_->setText(QStringLiteral("<a href=\"#advice\">%1</a>").arg(tr("What would make it shorter?")));
    link_->setAccessibleName(tr("What would make it shorter?"));
    connect(link_, &QLabel::linkActivated, this, [this] {
        if (facts_.root) {
            const RootCause root = *facts_.root;
            Q_EMIT adviceAsked(root);
        }
    });
    table_->setColumnCount(4);
    table_->setHeaderLabels({QString(), tr("Measured"), tr("Simulated"), tr("Difference")});
    table_->setRootIsDecorated(false);
    table_->setIndentation(0);
    table_->setItemsExpandable(false);
    table_->setFrameShape(QFrame::NoFrame);
    table_->setTextElideMode(Qt::ElideMiddle);  // names of ranges differ at their ends
    table_->header()->setStretchLastSection(false);
    table_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
    table_->header()->setDefaultAlignment(Qt::AlignRight | Qt::AlignVCenter);
    connect(table_->header(), &QHeaderView::sectionResized, this, [this](int column) {
        if (column == 0) {
            shortenNames();
        }
    });
    auto* copy = new QAction(tr("&Copy as text"), this);
    connect(copy, &QAction::triggered, this, &SelectionPanel::copy);
    table_->addAction(copy);
    table_->installEventFilter(this);
    table_->setContextMenuPolicy(Qt::ActionsContextMenu);
    auto* rest = new QWidget(this);  // keeps the lines at the top while there is no table
    rest->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Expanding);
    arrange(new QVBoxLayout(this), {8, 6, 4, 0}, 4, {title_, where_, text_, link_, {table_, 1000}, {rest, 1}});
    setFacts({});
}

bool SelectionPanel::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && event->type() == QEvent::KeyPress &&
        static_cast<const QKeyEvent*>(event)->matches(QKeySequence::Copy)) {
        copy();
        return true;
    }
    return QWidget::eventFilter(watched, event);
}

void SelectionPanel::copy() const {
    if (!facts_.title.isEmpty()) {
        QApplication::clipboard()->setText(facts_.plainText());
    }
}

void SelectionPanel::setEmptyText(const QString& title, const QString& text) {
    emptyTitle_ = title;
    emptyText_ = text;
    setFacts(std::move(facts_));
}

void SelectionPanel::setFacts(SelectionFacts facts) {
    facts_ = std::move(facts);
    const bool none = facts_.title.isEmpty();
    title_->setText(none ? emptyTitle_ : facts_.title);
    where_->setText(facts_.isEmpty() ? emptyText_ : facts_.where);
    text_->setText(facts_.text);
    if (!none) {
        table_->setHeaderLabels(
            {QString(), capitalised(facts_.measuredName), capitalised(facts_.simulatedName), tr("Difference")});
        table_->headerItem()->setToolTip(3, signOfDifferences(facts_.ofTwoRuns));
    }
    const bool single = !none && facts_.simulatedName.isEmpty();
    fitColumns();
    // One column of long values takes what the names leave. Figures are as wide as they must be, and names are elided.
    constexpr qsizetype kLongestFigure = 24;
    const bool isText = single && std::ranges::any_of(facts_.sections, [](const FactSection& section) {
                            return std::ranges::any_of(
                                section.rows, [](const FactRow& row) { return row.measured.size() > kLongestFigure; });
                        });
    table_->header()->setSectionResizeMode(0, isText ? QHeaderView::ResizeToContents : QHeaderView::Stretch);
    table_->header()->setSectionResizeMode(1, isText ? QHeaderView::Stretch : QHeaderView::ResizeToContents);
    text_->setVisible(!facts_.text.isEmpty());
    link_->setVisible(facts_.root.has_value());
    table_->clear();
    QFont bold = font();
    bold.setBold(true);
    for (const FactSection& section : facts_.sections) {
        auto* heading = new QTreeWidgetItem(table_, {section.heading});
        heading->setFont(0, bold);
        heading->setFirstColumnSpanned(true);
        if (table_->topLevelItemCount() > 1) {  // sets the section off from the one before
            heading->setSizeHint(0, QSize(0, fontMetrics().height() + kSectionGap));
            heading->setTextAlignment(0, Qt::AlignLeft | Qt::AlignBottom);
        }
        for (const FactRow& row : section.rows) {
            auto* item = new QTreeWidgetItem(table_, {row.name, row.measured, row.simulated, row.difference});
            item->setToolTip(0, row.name);
            item->setToolTip(1, single ? row.measured : QString());
            for (int column = 1; column < table_->columnCount(); ++column) {
                item->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
            }
        }
    }
    table_->setVisible(!facts_.sections.empty());
    shortenNames();
}

/// Causes of bubbles are wider than the panel at first. All have the longest form that fits; the tooltip and the copied
/// text have the whole name.
void SelectionPanel::shortenNames() {
    constexpr int kPadding = 8;
    const int room = table_->header()->sectionSize(0) - kPadding;
    if (table_->header()->sectionResizeMode(0) != QHeaderView::Stretch) {
        return;  // the names decide about the column's width
    }
    const auto shortened = [](QString name, int form) {
        if (form > 0) {
            name.replace(tr("waits for the "), tr("waits: ")).replace(tr("waits for a "), tr("waits: "));
            name.remove(tr(" (contention)"));
        }
        if (form > 1) {
            name.remove(tr("waits: ")).replace(tr("updates its parameters"), tr("updates"));
        }
        return name;
    };
    QList<QTreeWidgetItem*> causes;
    for (int i = 0; i < table_->topLevelItemCount(); ++i) {
        QTreeWidgetItem* item = table_->topLevelItem(i);
        if (shortened(item->toolTip(0), 2) != item->toolTip(0)) {
            causes << item;
        }
    }
    constexpr int kForms = 3;
    for (int form = 0; form < kForms; ++form) {
        bool fits = true;
        for (QTreeWidgetItem* item : causes) {
            const QString name = shortened(item->toolTip(0), form);
            item->setText(0, name);
            fits = fits && fontMetrics().horizontalAdvance(name) <= room;
        }
        if (fits) {
            return;
        }
    }
}

void SelectionPanel::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    fitColumns();
}

/// In a file with one timeline, one column has no value. In a narrow panel, names matter more than differences.
void SelectionPanel::fitColumns() {
    constexpr int kNarrow = 58;  // letters
    const auto hasAny = [this](QString FactRow::*value) {
        return std::ranges::any_of(facts_.sections, [value](const FactSection& section) {
            return std::ranges::any_of(section.rows, [value](const FactRow& row) { return !(row.*value).isEmpty(); });
        });
    };
    table_->setColumnHidden(1, !hasAny(&FactRow::measured) && hasAny(&FactRow::simulated));
    table_->setColumnHidden(2, !hasAny(&FactRow::simulated));
    table_->setColumnHidden(3, !hasAny(&FactRow::difference) || width() < kNarrow * fontMetrics().averageCharWidth());
}
}  // namespace pipescope
