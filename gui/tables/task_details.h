#pragma once

#include "gui/document/trace_document.h"
#include "gui/timeline/time_axis_model.h"

#include <QWidget>

#include <array>
#include <optional>

class QLabel;

namespace pipescope {
/// A task and its twin, in words.
struct TaskFacts {
    QString title;   ///< "forward of micro-batch 3 on partition 1"
    QString where;   ///< "lane 1 · cpu · step 4"
    QString bytes;   ///< of a copy, else empty
    QString device;  ///< what a device did for it; empty if none did
    struct Times {
        QString start;  ///< since the start of the step
        QString end;
        QString duration;
    };
    Times picked;
    std::optional<Times> twin;
    Times change;       ///< simulated against measured; empty without a twin
    QString whyNoTwin;  ///< empty if there is one
};
/// `step` is the measured step that is compared.
TaskFacts taskFacts(const TraceDocument& document, const TaskSelection& selection, std::int32_t step);
/// The same as HTML of a few lines.
QString toolTipOf(const TaskFacts& facts, Source source);
/// The same as one sentence, for screen readers.
QString spoken(const TaskFacts& facts, Source source);

/// Shows the selected task's facts; says how to select one while there is none.
class TaskDetails : public QWidget {
    Q_OBJECT

public:
    explicit TaskDetails(QWidget* parent = nullptr);
    void setFacts(const TaskFacts& facts, Source source);
    void clear();

private:
    QLabel* title_;
    QLabel* where_;
    QLabel* note_;
    QWidget* table_;
    std::array<std::array<QLabel*, 3>, 3> cells_{};  // start, end, duration by measured, simulated, difference
};
}  // namespace pipescope
