#include "gui/window/start_page.h"

#include "base/error.h"
#include "gui/document/viewed_files.h"
#include "gui/style/arrange.h"
#include "gui/style/enter_key.h"
#include "gui/style/icons.h"
#include "gui/style/save_file.h"
#include "gui/style/task_style.h"
#include "gui/window/session_state.h"
#include "profiler/profile/profile.h"
#include "profiler/profile/profile_file.h"

#include <QCoreApplication>
#include <QDir>
#include <QEvent>
#include <QFileInfo>
#include <QKeyEvent>
#include <QLabel>
#include <QListWidget>
#include <QLocale>
#include <QPushButton>
#include <QScrollArea>
#include <QToolButton>

#include <array>

namespace pipescope {
namespace {
constexpr int kWidestContent = 1080;  // pixels of the page's content
constexpr int kSampleLayers = 12;
constexpr int kPathRole = Qt::UserRole;

QFont scaled(const QFont& font, double factor, bool bold) {
    QFont larger = font;
    larger.setPointSizeF(font.pointSizeF() * factor);
    larger.setBold(bold);
    return larger;
}

QLabel* heading(const QString& text, QWidget* parent) {
    auto* label = new QLabel(text, parent);
    label->setFont(scaled(label->font(), 1.15, true));
    return label;
}

/// A button that looks like a line of text with an icon.
QToolButton* lineButton(const char* icon, const QString& text, const QString& toolTip, QWidget* parent) {
    QToolButton* button = iconButton(icon, toolTip, parent);
    button->setText(text);
    button->setAccessibleName(text);
    button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    button->setProperty("flat", true);
    button->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    return button;
}

/// A transformer of twelve blocks between an embedding and a head, with times as of a small GPU.
Profile sampleProfileOf() {
    Profile profile;
    profile.model = "sample: transformer of 12 blocks";
    profile.device = "sample device";
    profile.samples = {1};
    profile.input_bytes = {1.0 * (1 << 20)};
    profile.loss_ns = {900'000};
    for (int i = 0; i < kSampleLayers + 2; ++i) {
        const bool first = i == 0;
        const bool last = i == kSampleLayers + 1;
        LayerProfile layer;
        layer.name = first ? "embedding" : last ? "head" : "block" + std::to_string(i - 1);
        const double forward = first ? 0.4e6 : last ? 3.1e6 : 2.0e6;
        layer.forward_ns = {forward};
        layer.recompute_ns = {forward};
        layer.backward_ns = {2 * forward};
        layer.parameter_bytes = (first || last ? 48 : 28) << 20;
        layer.gradient_bytes = layer.parameter_bytes;
        layer.output_bytes = {4.0 * (1 << 20)};
        layer.saved_bytes = {first ? 2.0 * (1 << 20) : 36.0 * (1 << 20)};
        layer.transient_bytes = {8.0 * (1 << 20)};
        layer.flops = {forward * 2000};
        profile.layers.push_back(std::move(layer));
    }
    return profile;
}
}  // namespace

StartPage::StartPage(SessionState& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      recent_(
          named(new QListWidget(this), tr("Recent files"), tr("Return opens a file, Delete removes it from the list"))),
      empty_(new QLabel(tr("Files that you open are listed here. You can also drop them on the window."), this)),
      samples_(nullptr) {
    auto* area = new QScrollArea(this);  // a low window has no room for all of it
    area->setFrameShape(QFrame::NoFrame);
    area->setFocusPolicy(Qt::NoFocus);
    area->setWidgetResizable(true);
    auto* inner = new QWidget(area);
    inner->setBackgroundRole(QPalette::Base);
    inner->setAutoFillBackground(true);
    area->setWidget(inner);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, 0, {area});
    auto* title = new QLabel(tr("PipeScope"), this);
    title->setFont(scaled(title->font(), 2.2, true));
    auto* purpose = new QLabel(tr("What a training pipeline did, above what was predicted, on one time axis."), this);
    purpose->setWordWrap(true);
    faint_ << purpose << empty_;
    auto* content = new QWidget(this);
    content->setMaximumWidth(kWidestContent);
    auto* columns = arrange(new QHBoxLayout, {{createRecent(), 3}, {createActions(), 2}});
    columns->setSpacing(48);
    QBoxLayout* parts = arrange(new QVBoxLayout(content), {32, 36, 32, 24}, 6, {title, purpose, {columns, 1}});
    parts->insertSpacing(2, 20);
    auto* line = new QHBoxLayout(inner);
    line->setContentsMargins(0, 0, 0, 0);
    line->addStretch(1);
    line->addWidget(content, 1000);
    line->addStretch(1);
    tint();
    refresh();
}

QWidget* StartPage::createRecent() {
    auto* part = new QWidget(this);
    recent_->setFrameShape(QFrame::NoFrame);
    recent_->setUniformItemSizes(true);
    recent_->setSpacing(1);
    recent_->setTextElideMode(Qt::ElideMiddle);
    recent_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    recent_->installEventFilter(this);
    connect(recent_, &QListWidget::itemClicked, this, [this](const QListWidgetItem* item) { openItem(*item); });
    empty_->setWordWrap(true);
    arrange(new QVBoxLayout(part), {0, 0, 0, 0}, 8,
            {heading(tr("Recent"), part), empty_, {recent_, 1000}, {nullptr, 1}});
    return part;
}

QWidget* StartPage::createActions() {
    auto* part = new QWidget(this);
    auto* open = new QPushButton(tr("Open a trace or profile…"), part);
    open->setToolTip(tr("Traces of PipeScope, nsys, PyTorch's profiler and Chrome, and profiles (Ctrl+O)"));
    open->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
    open->installEventFilter(this);  // Return presses it too, as the samples
    connect(open, &QPushButton::clicked, this, &StartPage::openRequested);
    auto* samples = new QWidget(part);
    samples_ = new QVBoxLayout(samples);
    samples_->setContentsMargins(0, 0, 0, 0);
    samples_->setSpacing(0);
    auto* layout = new QVBoxLayout(part);
    arrange(layout, {0, 0, 0, 0}, 8, {heading(tr("Start"), part), open});
    layout->addSpacing(14);
    arrange(layout, {heading(tr("Samples"), part), samples});
    layout->addSpacing(14);
    layout->addWidget(heading(tr("Make one"), part));
    const std::array<std::pair<QString, QString>, 4> leads{
        {{tr("Record a run of a built-in model"),
          QStringLiteral("pipescope run transformer:layers=6 --balance 4,4 \\\n    -m 8 --batch 32 --steps 10 --trace "
                         "run.sqlite")},
         {tr("Record any program with NVTX ranges"), QStringLiteral("pipescope record -o run.sqlite -- ./train")},
         {tr("Measure a model's layers, then simulate"),
          QStringLiteral("pipescope profile transformer:layers=6 -o profile.json")},
         {tr("Open another program's trace"), QStringLiteral("nsys export -t sqlite report.nsys-rep")}}};
    for (const auto& [what, command] : leads) {
        auto* text = new QLabel(what, part);
        auto* code = new QLabel(command, part);
        QFont fixed(QStringLiteral("monospace"));
        fixed.setStyleHint(QFont::Monospace);
        fixed.setPointSizeF(font().pointSizeF() * 0.95);
        code->setFont(fixed);
        code->setWordWrap(true);
        code->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
        code->setAccessibleName(what);
        faint_ << code;
        layout->addWidget(text);
        layout->addWidget(code);
    }
    layout->addStretch(1);
    return part;
}

void StartPage::fillSamples() {
    while (QLayoutItem* item = samples_->takeAt(0)) {
        delete item->widget();
        delete item;
    }
    auto* parent = samples_->parentWidget();
    QToolButton* sample = lineButton("play", tr("A simulated pipeline: 12 transformer blocks"),
                                     tr("Shows a profile's pipeline, to change in the what-if panel"), parent);
    connect(sample, &QToolButton::clicked, this, &StartPage::sampleRequested);
    sample->installEventFilter(this);
    samples_->addWidget(sample);
    for (const QString& path : demoFiles()) {
        const bool isProfile = path.endsWith(QLatin1String(".json"));
        QToolButton* demo =
            lineButton(isProfile ? "profile" : "trace", tr("demo: %1").arg(QFileInfo(path).fileName()), path, parent);
        connect(demo, &QToolButton::clicked, this, [this, path] { Q_EMIT fileRequested(path); });
        demo->installEventFilter(this);
        samples_->addWidget(demo);
    }
}

void StartPage::refresh() {
    recent_->clear();
    for (const RecentFile& file : session_.recentFiles()) {
        const QStringList paths = ViewedFiles::filesOf(file.path);
        const QString name = ViewedFiles::nameOf(paths);
        const QFileInfo info(paths.front());
        const bool exists = ViewedFiles::exist(file.path);
        const QString when = file.opened.isValid() ? QLocale().toString(file.opened, QLocale::ShortFormat) : QString();
        QStringList facts;
        facts << (exists ? file.about : tr("missing; Delete removes it from the list")) << when
              << QDir::toNativeSeparators(info.absolutePath());
        facts.removeAll(QString());
        auto* item = new QListWidgetItem(name + QLatin1Char('\n') + facts.join(QStringLiteral("  ·  ")));
        const bool isProfile = file.path.endsWith(QLatin1String(".json"));
        item->setIcon(lineIcon(isProfile ? QStringLiteral("profile") : QStringLiteral("trace"), palette()));
        item->setData(kPathRole, file.path);
        item->setToolTip(QDir::toNativeSeparators(file.path));
        item->setData(Qt::AccessibleTextRole, tr("%1, %2").arg(name, facts.join(QStringLiteral(", "))));
        if (!exists) {
            item->setForeground(palette().color(QPalette::Disabled, QPalette::Text));
        }
        item->setSizeHint({100, 2 * fontMetrics().height() + 14});
        recent_->addItem(item);
    }
    recent_->setVisible(recent_->count() > 0);
    empty_->setVisible(recent_->count() == 0);
    if (recent_->count() > 0) {
        recent_->setCurrentRow(0);
    }
    fillSamples();
}

void StartPage::openItem(const QListWidgetItem& item) {
    const QString path = item.data(kPathRole).toString();
    if (ViewedFiles::exist(path)) {
        QMetaObject::invokeMethod(
            this, [this, path] { Q_EMIT fileRequested(path); }, Qt::QueuedConnection);
    }
}

void StartPage::removeSelected() {
    if (const QListWidgetItem* item = recent_->currentItem()) {
        const int row = recent_->currentRow();
        session_.removeRecentFile(item->data(kPathRole).toString());
        refresh();
        recent_->setCurrentRow(std::min(row, recent_->count() - 1));
    }
}

bool StartPage::eventFilter(QObject* watched, QEvent* event) {
    if (watched == recent_ && event->type() == QEvent::KeyPress) {
        const int key = static_cast<QKeyEvent*>(event)->key();
        if (key == Qt::Key_Delete || key == Qt::Key_Backspace) {
            removeSelected();
            return true;
        }
        if (pressesEnter(*event) && recent_->currentItem() != nullptr) {
            openItem(*recent_->currentItem());
            return true;
        }
    } else if (auto* button = qobject_cast<QAbstractButton*>(watched); button != nullptr && pressesEnter(*event)) {
        button->click();
        return true;
    }
    return QWidget::eventFilter(watched, event);
}

void StartPage::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    refresh();
}

void StartPage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        tint();
        refreshIcons(*this);
    }
}

void StartPage::tint() {
    QPalette faint = palette();
    faint.setColor(QPalette::WindowText, timelineColors(palette()).faintText);
    for (QLabel* label : faint_) {
        label->setPalette(faint);
    }
}

QString StartPage::writeSample(const QString& folder) {
    const QString path = QDir(folder).filePath(QStringLiteral("sample-profile.json"));
    saveFile(path, QByteArray::fromStdString(to_json(sampleProfileOf())));
    return path;
}

QStringList StartPage::demoFiles() {
    QStringList found;
    QDir above(QCoreApplication::applicationDirPath());
    above.cd(QStringLiteral("../../.."));
    for (const QDir& folder : {QDir::current(), above}) {
        for (const char* name : {"trace.sqlite", "profile.json", "emulated-trace.sqlite"}) {
            const QString path = folder.filePath(QStringLiteral("demo/") + QLatin1String(name));
            if (QFileInfo(path).isFile() && !found.contains(QFileInfo(path).absoluteFilePath())) {
                found << QFileInfo(path).absoluteFilePath();
            }
        }
        if (!found.isEmpty()) {
            break;
        }
    }
    return found;
}
}  // namespace pipescope
