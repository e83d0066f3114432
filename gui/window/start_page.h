#pragma once

#include <QDateTime>
#include <QList>
#include <QString>
#include <QWidget>

class QGridLayout;
class QLabel;
class QListWidget;
class QListWidgetItem;
class QVBoxLayout;

namespace pipescope {
class SessionState;

/// The window's content while no file is open: recent files, ways to open others, samples, and how to record a run.
class StartPage : public QWidget {
    Q_OBJECT

public:
    /// `session` must outlive the page.
    explicit StartPage(SessionState& session, QWidget* parent = nullptr);

    /// Reads the recent files and samples again. Files that are gone are greyed.
    void refresh();
    QListWidget& recent() const { return *recent_; }

    /// Writes the profile of the sample into the folder and returns its path. Throws Error if it cannot be written.
    static QString writeSample(const QString& folder);
    /// Files of the demo, if it was run here or in a folder above the program: traces and profiles.
    static QStringList demoFiles();

Q_SIGNALS:
    void openRequested();
    void fileRequested(const QString& path);
    void sampleRequested();

protected:
    void showEvent(QShowEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createRecent();
    QWidget* createActions();
    void fillSamples();
    void openItem(const QListWidgetItem& item);
    void removeSelected();
    void tint();

    SessionState& session_;
    QListWidget* recent_;
    QLabel* empty_;
    QVBoxLayout* samples_;
    QList<QLabel*> faint_;
};
}  // namespace pipescope
