#pragma once

#include "gui/timeline/timeline_view.h"

#include <QWidget>

class QLabel;

namespace pipescope {
class ElidedLabel;

/// A timeline under a line that says where it comes from and its figures. Measured and simulated panes differ in their
/// title and in the tint of that line.
class TimelinePane : public QWidget {
    Q_OBJECT

public:
    TimelinePane(Source source, TimeAxisModel& axis, QWidget* parent = nullptr);

    TimelineView& view() const { return *view_; }
    /// In place of MEASURED or SIMULATED; empty: that again.
    void setTitle(const QString& title);
    QString title() const;
    /// "step time 1.23 s · bubble 21.3 %"
    void setFacts(const QString& facts);
    QString facts() const;

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
