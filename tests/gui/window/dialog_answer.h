#pragma once

#include <QApplication>
#include <QFileDialog>
#include <QMenu>
#include <QString>
#include <QTest>
#include <QTimer>

#include <functional>

namespace pipescope {
/// Answers the next file dialog, which runs in its own event loop, with a name or Escape. If a context menu opens
/// first, selects its first entry.
class DialogAnswer : public QObject {
public:
    /// Empty: cancels the dialog.
    explicit DialogAnswer(QString path = {}) : path_(std::move(path)) {
        QApplication::setAttribute(Qt::AA_DontUseNativeDialogs);
        connect(&poll_, &QTimer::timeout, this, &DialogAnswer::answer);
        poll_.start(0);
    }

    bool answered() const { return answered_; }
    /// The name proposed by the dialog.
    QString proposed() const { return proposed_; }
    /// The text of the context menu's first entry; null if none opened.
    QString entry() const { return entry_; }

private:
    void answer() {
        if (auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget())) {
            if (entry_.isNull()) {
                entry_ = menu->actions().value(0) != nullptr ? menu->actions()[0]->text() : QStringLiteral("none");
                // Deferred: a timer does not fire again in the event loop of a dialog opened by its own call.
                QTimer::singleShot(0, menu, [menu] {
                    QTest::keyClick(menu, Qt::Key_Down);
                    QTest::keyClick(menu, Qt::Key_Return);
                });
            }
            return;
        }
        auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
        if (dialog == nullptr) {
            return;
        }
        poll_.stop();
        answered_ = true;
        proposed_ = QFileInfo(dialog->selectedFiles().value(0)).fileName();
        if (path_.isEmpty()) {
            dialog->reject();
            return;
        }
        dialog->selectFile(path_);
        static_cast<QDialog*>(dialog)->accept();
    }

    QString path_;
    QString proposed_;
    QString entry_;
    bool answered_ = false;
    QTimer poll_;
};
}  // namespace pipescope
