#pragma once

#include "gui/timeline/timeline_view.h"

#include <QWidget>

class QLabel;

namespace pipescope {
class ElidedLabel;

/// A timeline under a header line with its source and figures. Measured and simulated panes differ in title and tint.
class TimelinePane : public QWidget {
    Q_OBJECT

public:
    TimelinePane(Source source, TimeAxisModel& axis, QWidget* parent = nullptr);

    TimelineView& view() const { return *view_; }
    /// Replaces MEASURED or SIMULATED; an empty title restores it.
    void setTitle(const QString& title);
    QString title() const;
    /// "step time 1.23 s · bubble 21.3 %". `path`: of the critical path, which follows the step time and stays where
    /// room is short; empty: none.
    void setFacts(const QString& facts, const QString& path = {});

protected:
    void changeEvent(QEvent* event) override;

private:
    QString ownTitle() const;
    void tint();

    Source source_;
    QWidget* header_;
    QLabel* title_;
    ElidedLabel* facts_;
    TimelineView* view_;
};
}  // namespace pipescope
