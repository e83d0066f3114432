#include "gui/window/main_window.h"

#include "gui/style/message_bar.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/search_bar.h"
#include "gui/window/window_settings.h"

#include <QAction>
#include <QCloseEvent>
#include <QDockWidget>
#include <QFileInfo>
#include <QLabel>
#include <QPushButton>
#include <QSettings>
#include <QStackedWidget>
#include <QTabWidget>
#include <QVBoxLayout>

namespace pipescope {
MainWindow::MainWindow(QSettings* settings, QWidget* parent) : QMainWindow(parent), settings_(settings) {
    setAcceptDrops(true);
    auto* central = new QWidget(this);
    auto* layout = new QVBoxLayout(central);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    messages_ = new MessageBar(central);
    stack_ = new QStackedWidget(central);
    createTabs();
    stack_->addWidget(createEmptyState());
    stack_->addWidget(tabs_);
    layout->addWidget(messages_);
    layout->addWidget(stack_, 1);
    search_ = new SearchBar(central);
    layout->addWidget(search_);
    connect(this, &MainWindow::pageChanged, search_, [this] { search_->setPage(page()); });
    connect(search_, &SearchBar::closed, this, [this] {
        if (page() != nullptr) {
            page()->focusTimeline();
        }
    });
    setCentralWidget(central);
    createDocks();
    createActions();
    resize(1600, 900);
    if (settings_ != nullptr) {
        restoreGeometry(settings_->value(QString(kWindowGeometryKey)).toByteArray());
    }
    for (QDockWidget* dock : docks_) {
        dock->hide();  // empty so far
    }
    takeDropsFromFields();
    connect(this, &MainWindow::pageChanged, this, &MainWindow::takeDropsFromFields);  // for its new widgets
    refreshWindow();
}

MainWindow::~MainWindow() = default;

void MainWindow::createTabs() {
    tabs_ = new QTabWidget(this);
    tabs_->setDocumentMode(true);
    tabs_->setTabsClosable(true);
    tabs_->setMovable(true);
    tabs_->setTabBarAutoHide(true);
    tabs_->setAccessibleName(tr("Open files"));
    connect(tabs_, &QTabWidget::currentChanged, this, &MainWindow::refreshWindow);
    connect(tabs_, &QTabWidget::tabCloseRequested, this,
            [this](int index) { closePage(qobject_cast<DocumentPage*>(tabs_->widget(index))); });
}

QWidget* MainWindow::createEmptyState() {
    auto* page = new QWidget(this);
    auto* layout = new QVBoxLayout(page);
    auto* text =
        new QLabel(tr("<h2>No trace is open</h2>"
                      "<p>Drop a trace here, or open one.</p>"
                      "<p>Record one with<br><code>pipescope run MODEL --balance .. -m 8 --batch 64 --devices cpu,cpu "
                      "--steps 10 --trace out.sqlite</code></p>"
                      "<p>or simulate one with<br><code>pipescope simulate PROFILE --balance .. -m 8 --batch 64 "
                      "--trace out.sqlite</code></p>"),
                   page);
    text->setAlignment(Qt::AlignCenter);
    text->setWordWrap(true);
    text->setTextInteractionFlags(Qt::TextSelectableByMouse);
    auto* open = new QPushButton(tr("Open a trace…"), page);
    connect(open, &QPushButton::clicked, this, &MainWindow::askForFile);
    layout->addStretch(1);
    layout->addWidget(text);
    layout->addWidget(open, 0, Qt::AlignCenter);
    layout->addStretch(2);
    return page;
}

DocumentPage* MainWindow::page() const {
    return qobject_cast<DocumentPage*>(tabs_->currentWidget());
}

QList<DocumentPage*> MainWindow::pages() const {
    QList<DocumentPage*> all;
    for (int i = 0; i < tabs_->count(); ++i) {
        all << qobject_cast<DocumentPage*>(tabs_->widget(i));
    }
    return all;
}

DocumentPage* MainWindow::pageOf(const QString& path) const {
    const QString absolute = QFileInfo(path).absoluteFilePath();
    for (DocumentPage* each : pages()) {
        if (QFileInfo(each->path()).absoluteFilePath() == absolute) {
            return each;
        }
    }
    return nullptr;
}

DocumentPage* MainWindow::addPage(const QString& path) {
    auto* added = new DocumentPage(path, tabs_);
    added->setMemoryShown(showMemory_->isChecked());
    follow(*added);
    const int index = tabs_->addTab(added, QFileInfo(path).fileName());
    tabs_->setTabToolTip(index, QFileInfo(path).absoluteFilePath());
    tabs_->setCurrentIndex(index);
    return added;
}

void MainWindow::follow(DocumentPage& page) {
    connect(&page, &DocumentPage::documentChanged, this, [this, &page] {
        if (&page == this->page()) {
            refreshWindow();
        }
    });
    connect(&page, &DocumentPage::simulationChanged, this, [this, &page] {
        if (&page == this->page()) {
            Q_EMIT simulationChanged();
        }
    });
    connect(&page, &DocumentPage::stepChanged, this, [this, &page] {
        if (&page == this->page()) {
            Q_EMIT stepChanged();
        }
    });
    connect(&page, &DocumentPage::selectionChanged, this, [this, &page] {
        if (&page == this->page()) {
            Q_EMIT selectionChanged();
        }
    });
}

void MainWindow::setDocument(std::shared_ptr<const TraceDocument> document) {
    DocumentPage* of = pageOf(document->path);
    if (of == nullptr) {
        of = addPage(document->path);
    }
    tabs_->setCurrentWidget(of);
    showDocks();
    of->setDocument(std::move(document), Keep::view);
    of->focusTimeline();
}

void MainWindow::closePage(DocumentPage* page) {
    if (page == nullptr) {
        return;
    }
    savePage(*page);
    page->disconnect(this);
    tabs_->removeTab(tabs_->indexOf(page));
    page->deleteLater();
    refreshWindow();
}

void MainWindow::refreshWindow() {
    stack_->setCurrentIndex(page() != nullptr ? 1 : 0);
    for (QAction* action : pageActions_) {
        action->setEnabled(page() != nullptr);
    }
    setTitle();
    Q_EMIT pageChanged();
}

void MainWindow::setTitle() {
    if (page() == nullptr) {
        setWindowTitle(tr("PipeScope"));
        return;
    }
    const QString name = QFileInfo(page()->path()).fileName();
    setWindowTitle(page()->document() ? tr("%1 – PipeScope").arg(name) : tr("Opening %1 – PipeScope").arg(name));
}

void MainWindow::showError(const QString& text) {
    messages_->showMessage(MessageBar::Kind::error, text);
}

void MainWindow::closeEvent(QCloseEvent* event) {
    saveSession();
    if (settings_ != nullptr) {
        settings_->setValue(QString(kWindowGeometryKey), saveGeometry());
        if (docksShown_) {
            settings_->setValue(QString(kWindowStateKey), saveState(kWindowStateVersion));
        }
    }
    QMainWindow::closeEvent(event);
}
}  // namespace pipescope
