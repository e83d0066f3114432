#include "gui/timeline/time_axis_model.h"
#include "gui/window/main_window.h"
#include "gui/window/view_state.h"
#include "gui/window/window_settings.h"

#include <QFileInfo>
#include <QSettings>
#include <QTabWidget>

namespace pipescope {
void MainWindow::savePage(const DocumentPage& page) const {
    if (settings_ == nullptr || !page.document()) {
        return;
    }
    const TimeWindow& window = page.axis().window();
    ViewState state;
    state.step = page.step();
    state.visible = {window.start, window.start + static_cast<std::int64_t>(window.length)};
    state.marks = page.axis().marks();
    state.mode = nameOf(page.choice().mode);
    state.alignment = nameOf(page.choice().alignment);
    state.causes = page.choice().causes;
    state.criticalPath = page.choice().criticalPath;
    saveViewState(*settings_, page.path(), state);
}

void MainWindow::restorePage(DocumentPage& page) const {
    const std::optional<ViewState> state = settings_ != nullptr ? loadViewState(*settings_, page.path()) : std::nullopt;
    if (!state) {
        return;
    }
    page.selectStep(state->step);
    page.axis().setMarks(state->marks);
    MarkChoice choice = page.choice();
    if (page.document()->measured && page.document()->simulated) {
        for (const CompareMode mode : {CompareMode::side_by_side, CompareMode::overlay, CompareMode::difference}) {
            choice.mode = nameOf(mode) == state->mode ? mode : choice.mode;
        }
        for (const Alignment alignment : {Alignment::first_task, Alignment::step, Alignment::task}) {
            choice.alignment = nameOf(alignment) == state->alignment ? alignment : choice.alignment;
        }
    }
    choice.causes = state->causes;
    choice.criticalPath = state->criticalPath;
    page.setChoice(choice);
    const TimeRange& total = page.axis().total();
    if (state->visible.start < total.end && state->visible.end > total.start) {  // otherwise another run
        page.axis().show(state->visible);
    }
}

void MainWindow::saveSession() const {
    if (settings_ == nullptr) {
        return;
    }
    QStringList open;
    for (const DocumentPage* each : pages()) {
        savePage(*each);
        open << QFileInfo(each->path()).absoluteFilePath();
    }
    settings_->setValue(QString(kOpenFilesKey), open);
    settings_->setValue(QString(kCurrentFileKey), tabs_->currentIndex());
}

void MainWindow::restoreSession() {
    if (settings_ == nullptr) {
        return;
    }
    const int current = settings_->value(QString(kCurrentFileKey)).toInt();
    const QStringList files = settings_->value(QString(kOpenFilesKey)).toStringList();
    for (const QString& file : files) {
        if (QFileInfo::exists(file)) {  // skips files deleted since, without an error
            open(file);
        }
    }
    tabs_->setCurrentIndex(std::min(current, tabs_->count() - 1));
}
}  // namespace pipescope
