// Marks on top of the page's timelines: comparison, causes of idle time, dependencies within the step.
#include "gui/document/headlines.h"
#include "gui/style/legend.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/compare_bar.h"
#include "gui/window/document_page.h"

#include <QEvent>
#include <QPalette>

#include <array>

namespace pipescope {
namespace {
std::vector<LegendEntry> causeEntries(const StepAnalysis& analysis, const TimelineColors& colors) {
    std::array<bool, kNumBubbleCauses> occurs{};
    for (const Source source : {Source::measured, Source::simulated}) {
        for (const BubblePiece& piece : analysis.bubbles(source)) {
            occurs[static_cast<std::size_t>(piece.cause)] = true;
        }
    }
    std::vector<LegendEntry> entries;
    for (int cause = 0; cause < kNumBubbleCauses; ++cause) {
        if (occurs[static_cast<std::size_t>(cause)]) {
            const auto each = static_cast<BubbleCause>(cause);
            entries.push_back({colors.bubble, brushOf(each, colors), nameOf(each)});
        }
    }
    return entries;
}

std::vector<LegendEntry> latenessEntries(std::int64_t scale, const TimelineColors& colors) {
    std::vector<LegendEntry> entries;
    for (int i = 0; i < kNumLateness; ++i) {
        const auto lateness = static_cast<Lateness>(i);
        const LatenessStyle style = styleOf(lateness, colors);
        const bool plain = style.pattern == Qt::SolidPattern;
        entries.push_back({style.color, plain ? QBrush(Qt::NoBrush) : QBrush(inkOn(style.color), style.pattern),
                           describe(lateness, scale)});
    }
    entries.push_back({styleOf(TaskKind::forward).color, QBrush(veilOf(colors)),
                       DocumentPage::tr("faint: other steps, and tasks without a twin")});
    return entries;
}
}  // namespace

void DocumentPage::setChoice(const MarkChoice& choice) {
    if (choice == choice_) {
        return;
    }
    const bool other = choice.mode != choice_.mode;
    choice_ = choice;
    compareBar_->setChoice(choice);
    if (!document_) {
        return;
    }
    refreshMarks();
    if (other) {
        QMetaObject::invokeMethod(this, &DocumentPage::shareHeight, Qt::QueuedConnection);
    }
}

void DocumentPage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && analysis_) {
        refreshMarks();  // the legend's swatches use the theme's background
    }
}

void DocumentPage::analyse() {
    analysis_ = std::make_shared<const StepAnalysis>(document_, step_);
    compareBar_->setComparable(document_->measured && document_->simulated);
    refreshMarks();
}

void DocumentPage::refreshMarks() {
    const std::optional<TaskSelection>& selection = axis_->selection();
    const std::int64_t shift = analysis_->shift(choice_.alignment, selection);
    view(Source::simulated).setShift(shift);
    refreshMemory(shift);
    minimap_->setStore(document_->measured ? document_->measured : document_->simulated,
                       document_->measured ? 0 : shift);
    const TimelineColors colors = timelineColors(palette());
    std::vector<LegendEntry> entries;
    for (const Source source : {Source::measured, Source::simulated}) {
        const std::shared_ptr<const TimelineMarks> marks = analysis_->marks(source, choice_, selection);
        if (marks && marks->differenceScale > 0) {
            entries = latenessEntries(marks->differenceScale, colors);
        }
        view(source).setMarks(marks);
    }
    const bool recoloured = !entries.empty();
    if (choice_.causes) {
        const std::vector<LegendEntry> causes = causeEntries(*analysis_, colors);
        entries.insert(entries.end(), causes.begin(), causes.end());
    }
    legend_->setEntries(std::move(entries), recoloured);
    const auto facts = [&](Source source, const QString& headline) {
        const QString path = choice_.criticalPath ? analysis_->criticalPathText(source) : QString();
        pane(source).setFacts(path.isEmpty() ? headline : headline + QStringLiteral("  ·  ") + path);
    };
    facts(Source::measured, measuredHeadline(*document_, step_));
    facts(Source::simulated, simulatedHeadline(*document_, step_));
    // The other modes show simulated tasks in the measured timeline.
    simulated_->setVisible(document_->simulated && (choice_.mode == CompareMode::side_by_side || !document_->measured));
}
}  // namespace pipescope
