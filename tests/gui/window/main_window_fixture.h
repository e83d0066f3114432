#pragma once

#include "gui/style/elided_label.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/export_menu.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "gui/window/memory_pane.h"
#include "gui/window/scenario_docks.h"
#include "gui/window/table_docks.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QSignalSpy>
#include <QTest>
#include <QWheelEvent>

#include <string>

namespace pipescope {
/// The line above the current page's measured or simulated timeline.
inline QString headlineOf(const MainWindow& window, Source source) {
    return window.page()->views().pane(source).findChild<ElidedLabel*>()->text();
}

/// An offscreen window with a sample run.
class MainWindowTest : public testing::Test {
protected:
    void SetUp() override {
        window_.resize(1400, 900);
        window_.show();
    }

    void open(const std::string& name, const SampleRun& run = {}) {
        const auto path = temporaryPath(name);
        writeSampleTrace(path, run);
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        settle();
    }

    /// Shortcuts need the active window; a dialog may have taken that role.
    void activate() {
        window_.activateWindow();
        ASSERT_TRUE(QTest::qWaitForWindowActive(&window_, kPatience));
    }

    void settle() {
        QApplication::processEvents();
        QApplication::processEvents();
    }

    TimelineView& measured() { return window_.page()->views().view(Source::measured); }
    TimelineView& simulated() { return window_.page()->views().view(Source::simulated); }

    void wheel(TimelineView& view, const QPointF& at, int delta, Qt::KeyboardModifiers modifiers) {
        QWheelEvent event(at, view.viewport()->mapToGlobal(at), {}, {0, delta}, Qt::NoButton, modifiers,
                          Qt::NoScrollPhase, false);
        QApplication::sendEvent(view.viewport(), &event);
    }

    SliceRef slice(Source source, const TaskKey& key) { return *window_.files().document()->store(source)->find(key); }

    QColor pixel(TimelineView& view, const QPoint& at) { return view.viewport()->grab().toImage().pixelColor(at); }

    MainWindow window_{nullptr};
    const TaskKey task_{1, TaskKind::backward, 1, 2, -1};
    const TaskKey twin_{0, TaskKind::backward, 1, 2, -1};
};
}  // namespace pipescope
