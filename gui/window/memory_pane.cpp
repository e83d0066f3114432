#include "gui/window/memory_pane.h"

#include "gui/document/trace_document.h"
#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/number_format.h"
#include "gui/timeline/memory_view.h"

#include <QCheckBox>
#include <QLabel>

#include <algorithm>

namespace pipescope {
MemoryPane::MemoryPane(TimeAxisModel& axis, QWidget* parent)
    : QWidget(parent),
      title_(new QLabel(tr("<b>MEMORY</b>"), this)),
      content_(new ElidedLabel(this)),
      view_(new MemoryView(axis, this)),
      composition_(new QCheckBox(tr("C&omposition"), this)),
      legend_(named(new Legend(this), tr("Legend of the memory's composition"))) {
    title_->setContentsMargins(8, 3, 8, 3);
    composition_->setToolTip(tr("Stack the bytes by category"));
    connect(composition_, &QCheckBox::toggled, this, [this](bool on) {
        view_->setStacked(on);
        refreshHeader();
    });
    std::vector<LegendEntry> entries;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        const MemoryStyle style = styleOf(category);
        entries.push_back({style.color, style.over, nameOf(category)});
    }
    legend_->setEntries(std::move(entries), true);
    legend_->hide();
    auto* header = arrange(new QHBoxLayout, {title_, {content_, 1}, composition_});
    header->setContentsMargins(0, 0, 8, 0);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, 0, {header, legend_, {view_, 1}});
}

void MemoryPane::setDocument(const TraceDocument& document, std::int64_t shift) {
    const TimelineStore* names = storeOfMostLanes(document);
    std::vector<Bytes> peaks;
    for (const SimulatedLane& lane : document.simulation ? document.simulation->lanes : std::vector<SimulatedLane>{}) {
        peaks.push_back(lane.peak_bytes);
    }
    limits_ = document.memoryLimits;
    view_->setScene({names != nullptr ? names->lanes() : std::vector<LaneInfo>{}, document.measuredMemory.get(),
                     &document.simulatedMemory, shift, limits_, std::move(peaks), nameOf(document, Source::measured),
                     nameOf(document, Source::simulated)});
    twoRuns_ = document.baseline != nullptr;
    measured_ = document.measured != nullptr;
    simulated_ = !document.simulatedMemory.empty();
    composition_->setVisible(view_->composed());
    refreshHeader();
    setShown(shown_);
}

void MemoryPane::refreshHeader() {
    QString limit;
    if (!limits_.empty()) {
        bool isOnScale = false;
        for (std::size_t lane = 0; lane < limits_.size(); ++lane) {
            isOnScale = isOnScale || view_->showsLimit(lane);
        }
        const auto [least, most] = std::minmax_element(limits_.begin(), limits_.end());
        const QString bytes = *least == *most ? tr("limit of %1 per lane").arg(formatBytes(*least))
                                              : tr("limits of %1 to %2").arg(formatBytes(*least), formatBytes(*most));
        limit = isOnScale ? tr(", red: %1").arg(bytes) : tr("; above the scale: %1").arg(bytes);
    }
    const bool stacked = view_->stacked() && view_->composed();
    legend_->setVisible(stacked);
    QStringList parts;
    if (measured_) {
        parts << (stacked ? tr("stacked from below in this order") : tr("area: measured"));
    }
    if (simulated_) {
        parts << tr("line: simulated");
    }
    parts << (!measured_   ? tr("▼ peak")
              : simulated_ ? tr("▼ peak (measured: of the whole run)")
                           : tr("▼ peak of the whole run"));
    const QString content = parts.join(QStringLiteral(", "));
    content_->setText((twoRuns_ ? inWordsOfRuns(content) : content) + limit);
}

void MemoryPane::setShown(bool shown) {
    shown_ = shown;
    setVisible(room_ && isWanted());
}

bool MemoryPane::isWanted() const {
    return shown_ && !view_->empty();
}

void MemoryPane::setRoom(bool room) {
    room_ = room;
    setShown(shown_);
}
}  // namespace pipescope
