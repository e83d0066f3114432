#pragma once

#include "base/ids.h"

#include <QWidget>

#include <vector>

class QCheckBox;
class QLabel;

namespace pipescope {
class ElidedLabel;
class Legend;
class MemoryView;
class TimeAxisModel;
struct TraceDocument;

/// Memory over time under a header line with its legend, and a box that stacks the bytes by category. Hidden while
/// there is nothing to show.
class MemoryPane : public QWidget {
    Q_OBJECT

public:
    explicit MemoryPane(TimeAxisModel& axis, QWidget* parent = nullptr);

    MemoryView& view() const { return *view_; }
    /// `shift` is added to simulated times. The document must live until the next call.
    void setDocument(const TraceDocument& document, std::int64_t shift);
    /// The user's choice. A pane without content stays hidden.
    void setShown(bool shown);
    /// True if it is shown where there is room.
    bool isWanted() const;
    /// False in a page that is too low for it.
    void setRoom(bool room);

private:
    void refreshHeader();

    QLabel* title_;
    ElidedLabel* content_;
    MemoryView* view_;
    QCheckBox* composition_;
    Legend* legend_;
    std::vector<Bytes> limits_;
    bool shown_ = true;
    bool room_ = true;
    bool measured_ = false;
    bool simulated_ = false;
    bool twoRuns_ = false;
};
}  // namespace pipescope
