#include "gui/what_if/advice_panel.h"

#include "answers/advice_report.h"
#include "gui/style/arrange.h"
#include "gui/style/enter_key.h"
#include "gui/style/task_style.h"
#include "gui/tables/filtered_table.h"
#include "gui/what_if/scenario_model.h"
#include "simulator/plan/planner.h"

#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QGuiApplication>
#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QStyledItemDelegate>
#include <QTableView>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr double kLeastScale = 0.05;                   // of the bars: smaller gains are drawn as small
constexpr int kRestBeforeAdvice = 150;                 // ms without a change before moves are tried
constexpr std::int64_t kMostAdvisedForwards = 50'000;  // about 30 simulations of a second each
constexpr std::int64_t kMostOrderedForwards = 8'192;   // with schedule auto: about 60 searches of half a second each

/// With the range that the error of the simulation on the recorded run leaves.
QString fasterText(const AdviceRow& row) {
    if (row.withinError) {
        return translated("cannot be told apart");
    }
    if (!row.error) {
        return translated("faster");
    }
    const ModelError::Range range = row.error->range_of(row.change);
    return translated("faster by %1 to %2").arg(formatShare(-range.most), formatShare(-range.least));
}

QString effectName(const AdviceRow& row) {
    switch (row.move.effect) {
        case MoveEffect::fits: return translated("makes it fit");
        case MoveEffect::faster: return fasterText(row);
        case MoveEffect::over_limit:
            return row.change < -kPlanTie ? translated("faster, does not fit") : translated("does not fit");
        case MoveEffect::none: break;
    }
    const QString gain = row.withinNoise ? translated("within noise") : translated("no gain");
    return row.move.simulation.feasible ? gain : translated("%1, does not fit").arg(gain);
}

QString sentence(const std::string& text) {
    QString capital = QString::fromStdString(text);
    if (!capital.isEmpty()) {
        capital[0] = capital[0].toUpper();
        capital += QLatin1Char('.');
    }
    return capital;
}

QString whyText(const AdviceRow& row) {
    const QString why = sentence(row.move.why);
    return row.move.note.empty() ? why : why + QLatin1Char(' ') + sentence(row.move.note);
}

/// A bar before the number: blue to the left for a shorter step, orange to the right for a longer one, as tasks have
/// these colours in the difference.
class ChangeBar : public QStyledItemDelegate {
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QStyledItemDelegate::paint(painter, option, index);
        const double part = index.data(AdviceTableModel::kBarRole).toDouble();
        const int number = option.fontMetrics.horizontalAdvance(QStringLiteral("−888.8 %  "));
        const QRectF room = QRectF(option.rect).adjusted(4, 3, -number, -3);
        const double middle = room.center().x();
        const double length = std::abs(part) * room.width() / 2;
        const bool selected = option.state.testFlag(QStyle::State_Selected);
        QColor color = selected   ? option.palette.color(QPalette::HighlightedText)
                       : part < 0 ? QColor::fromRgb(okabe_ito::kSky)
                                  : QColor::fromRgb(okabe_ito::kOrange);
        color.setAlphaF(part < 0 ? 1.0F : 0.6F);
        painter->save();
        painter->fillRect(QRectF(part < 0 ? middle - length : middle, room.top(), length, room.height()), color);
        painter->setPen(selected ? color : timelineColors(option.palette).faintText);
        painter->drawLine(QPointF(middle, option.rect.top()), QPointF(middle, option.rect.bottom()));
        painter->restore();
    }
};

QVariant peakOf(const AdviceRow& row) {
    return row.move.simulation.memory_unknown ? QVariant()
                                              : QVariant(static_cast<qlonglong>(highest_peak(row.move.simulation)));
}

QString peakText(const AdviceRow& row) {
    const QVariant peak = peakOf(row);
    return peak.isValid() ? formatBytes(peak.toLongLong()) : translated("unknown");
}

std::shared_ptr<const Advice> adviceFor(const CheckedProfile& profile, const PipelineOptions& options,
                                        const std::optional<RecordedLayout>& layout,
                                        const std::function<bool()>& cancelled) {
    auto advice = std::make_shared<Advice>(advise(profile, options, cancelled));
    if (layout) {
        add_rest_of_step(*advice, layout->step, layout->options);
        leave_out_unknown(*advice, layout->step, layout->options, profile);
    }
    return advice;
}
}  // namespace

AdviceTableModel::AdviceTableModel(QObject* parent)
    : RowModel({{translated("Change"), "change", Qt::AlignLeft,
                 [](const AdviceRow& r) { return QString::fromStdString(r.move.title); }},
                numberColumn<AdviceRow>(
                    translated("Step time"), "expected_step_ns", [](const AdviceRow& r) { return r.figures.step; },
                    formatDuration),
                numberColumn<AdviceRow>(translated("Difference"), "step_change", &AdviceRow::change, formatShareChange),
                numberColumn<AdviceRow>(
                    translated("Bubble"), "expected_bubble_fraction",
                    [](const AdviceRow& r) { return r.figures.bubble; }, formatShare),
                {translated("Peak memory"), "peak_bytes", Qt::AlignRight, peakText, peakOf},
                {translated("Effect"), "effect", Qt::AlignLeft, effectName,
                 [](const AdviceRow& r) { return QString::fromStdString(to_string(r.move.effect)); }},
                {translated("Why"), "why", Qt::AlignLeft, whyText}},
               parent) {}

QVariant AdviceTableModel::data(const QModelIndex& index, int role) const {
    const std::optional<AdviceRow> row = rowAt(index.row());
    if (row && role == Qt::ForegroundRole && !helps(row->move.effect)) {
        return timelineColors(QGuiApplication::palette()).faintText;
    }
    if (row && role == kBarRole) {
        return std::clamp(row->change / largest_, -1.0, 1.0);
    }
    if (row && role == Qt::ToolTipRole) {
        return QString::fromStdString(row->move.title) + QLatin1Char('\n') + whyText(*row);
    }
    return RowModel::data(index, role);
}

QVariant AdviceTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (withoutNoise_ && section == step && orientation == Qt::Horizontal && role == Qt::DisplayRole) {
        return translated("Step without noise");
    }
    return RowModel::headerData(section, orientation, role);
}

void AdviceTableModel::setMoves(std::vector<AdviceRow> rows, bool withoutNoise) {
    withoutNoise_ = withoutNoise;
    Q_EMIT headerDataChanged(Qt::Horizontal, step, step);
    largest_ = kLeastScale;
    for (const AdviceRow& row : rows) {
        largest_ = std::max(largest_, -row.change);
    }
    setRows(std::move(rows));
}

AdvicePanel::AdvicePanel(ScenarioModel& model, QWidget* parent)
    : QWidget(parent),
      model_(model),
      rows_(new AdviceTableModel(this)),
      message_(new QLabel(this)),
      try_(new QPushButton(tr("&Try"), this)),
      bubbles_(new QPushButton(tr("Its &bubbles"), this)),
      check_(new QPushButton(tr("Chec&k it"), this)),
      table_(named(new QTableView(this), tr("What to change"))),
      rest_(new RestedWork(kRestBeforeAdvice, *this, [this] { compute(); })) {
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    named(try_, tr("Try the selected change"),
          tr("Makes the selected change (Enter, or a double click). Ctrl+Z takes it back."));
    named(bubbles_, tr("Show the bubbles that the selected change makes shorter"),
          tr("Lists the bubbles of the root cause that the selected change is against."));
    named(check_, tr("Copy a command that checks the selected change"),
          tr("Copies the 'pipescope check' command that runs both pipelines in turns, and says which is faster."));
    table_->setModel(rows_);
    makeCompact(*table_);
    table_->horizontalHeader()->setMinimumSectionSize(fontMetrics().averageCharWidth() * 8);
    table_->setItemDelegateForColumn(AdviceTableModel::change, new ChangeBar(table_));
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table_->horizontalHeader()->setSectionResizeMode(AdviceTableModel::change, QHeaderView::Fixed);
    table_->horizontalHeader()->setSectionResizeMode(AdviceTableModel::why, QHeaderView::Stretch);
    table_->setColumnWidth(AdviceTableModel::change, fontMetrics().averageCharWidth() * 24);
    table_->installEventFilter(this);
    arrange(new QVBoxLayout(this), {4, 4, 4, 0}, 4,
            {arrange(new QHBoxLayout, {0, 0, 0, 0}, 8, {{message_, 1}, check_, bubbles_, try_}), {table_, 1}});
    setFocusProxy(table_);
    connect(try_, &QPushButton::clicked, this, [this] { tryRow(table_->currentIndex().row()); });
    connect(table_, &QTableView::doubleClicked, this, [this](const QModelIndex& index) { tryRow(index.row()); });
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &AdvicePanel::refreshButtons);
    connect(bubbles_, &QPushButton::clicked, this, [this] {
        const std::optional<AdviceRow> row = rows_->rowAt(table_->currentIndex().row());
        if (const std::optional<RootCause> root = row ? root_against(row->move.kind) : std::nullopt) {
            const RootCause asked = *root;
            Q_EMIT bubblesAsked(asked);
        }
    });
    connect(check_, &QPushButton::clicked, this, &AdvicePanel::copyCheck);
    connect(&model_, &ScenarioModel::profileChanged, this, &AdvicePanel::restart);
    connect(&model_, &ScenarioModel::scenarioChanged, this, &AdvicePanel::restart);
    connect(&model_, &ScenarioModel::modelErrorChanged, this, &AdvicePanel::relist);
    restart();
}

AdvicePanel::~AdvicePanel() = default;

QString AdvicePanel::message() const {
    return message_->text();
}

void AdvicePanel::setReason(const QString& why) {
    reason_ = why;
    if (model_.isEmpty()) {
        restart();
    }
}

void AdvicePanel::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    for (QWidget* parent = parentWidget(); parent != nullptr; parent = parent->parentWidget()) {
        if (auto* dock = qobject_cast<QDockWidget*>(parent)) {
            connect(dock, &QDockWidget::visibilityChanged, this, &AdvicePanel::wake, Qt::UniqueConnection);
        }
    }
    wake();
}

void AdvicePanel::wake() {
    if (outdated_) {
        rest_->start();  // a panel may show for a moment while the window places its docks
    }
}

void AdvicePanel::restart() {
    job_.drop();
    advice_.reset();
    rows_->setMoves({});
    refreshButtons();
    complete_ = false;
    outdated_ = true;
    table_->setVisible(!model_.isEmpty());
    for (QPushButton* button : {try_, bubbles_, check_}) {
        button->setVisible(!model_.isEmpty());
    }
    if (model_.isEmpty()) {
        rest_->stop();
        outdated_ = false;
        const QString why = reason_.isEmpty() ? tr("contains no profile") : reason_;
        say(tr("No advice: this file %1. Open a trace of 'pipescope run --trace', or a profile.").arg(why));
        return;
    }
    say(tr("Trying single changes…"));
    rest_->start();
}

void AdvicePanel::compute() {
    if (visibleRegion().isEmpty() || model_.isEmpty()) {
        return;  // behind another tab, a panel counts as visible; wake() comes back
    }
    rest_->stop();
    outdated_ = false;
    const Scenario scenario = model_.scenario();
    const auto partitions = static_cast<std::int64_t>(scenario.options.balance.num_partitions());
    const bool isAutomatic = scenario.options.schedule == Schedule::automatic;
    const std::int64_t most = isAutomatic ? kMostOrderedForwards : kMostAdvisedForwards;
    if (std::min(scenario.options.chunks, scenario.options.batch) > most / partitions) {
        say(tr("Too large to try changes while you wait: more than %1 forwards. Use pipescope advise, or fewer "
               "micro-batches.")
                .arg(most));
        return;
    }
    std::optional<CheckedProfile> profile;
    try {
        profile = profileOn(model_.profile(), scenario.deviceType);
    } catch (const Error& error) {
        say(tr("No advice: %1").arg(QString::fromUtf8(error.what())));
        return;
    }
    job_.start(
        *this,
        [profile, options = scenario.options, layout = model_.layout()](const std::function<bool()>& cancelled) {
            return adviceFor(*profile, options, layout, cancelled);
        },
        [this, profile](const std::shared_ptr<const Advice>& advice) {
            list(advice, has_noise(*profile));
            if (has_noise(*profile)) {
                computeNoise(*profile, *advice);
            } else {
                finish();
            }
        },
        [this](const QString& error) { say(tr("No advice: %1").arg(error)); });
}

void AdvicePanel::computeNoise(const CheckedProfile& profile, const Advice& advice) {
    job_.start(
        *this,
        [profile, advice](const std::function<bool()>& cancelled) {
            auto noisy = std::make_shared<Advice>(advice);
            add_noise(profile, *noisy, cancelled);
            return std::shared_ptr<const Advice>(std::move(noisy));
        },
        [this](const std::shared_ptr<const Advice>& noisy) {
            list(noisy, false);
            finish();
        },
        [this](const QString& error) { say(tr("No expected steps: %1").arg(error)); });
}

void AdvicePanel::list(std::shared_ptr<const Advice> advice, bool noiseFollows) {
    advice_ = std::move(advice);
    noiseFollows_ = noiseFollows;
    relist();
}

void AdvicePanel::relist() {
    if (!advice_) {
        return;
    }
    const Advice& advice = *advice_;
    const std::optional<ModelError>& error = model_.modelError();
    // The first row is selected until the user selects another: then it is the best change, whichever that becomes.
    const int row = table_->currentIndex().row();
    const std::optional<AdviceRow> current = row > 0 ? rows_->rowAt(row) : std::nullopt;
    std::vector<AdviceRow> rows;
    int selected = 0;
    for (const Move& move : advice.moves) {
        if (current && current->move.title == move.title) {
            selected = static_cast<int>(rows.size());
        }
        const double change = relative_change(advice, move);
        rows.push_back({move, expected_figures(move.simulation), change, is_within_noise(advice, move),
                        error && error->hides(change), error});
    }
    const auto helpful = std::ranges::count_if(advice.moves, [](const Move& each) { return helps(each.effect); });
    const QString all = formatCount(advice.moves.size(), tr("change"), tr("changes"));
    const QString step = formatDuration(expected_figures(advice.base).step.count());
    const QString sum =
        helpful == 0 ? tr("None of %1 helps; Plan (Ctrl+P) tries several at once. Step time now: %2.").arg(all, step)
        : advice.base.feasible ? tr("%1 of %2 would shorten the simulated step of %3.").arg(helpful).arg(all, step)
                               : tr("%1 of %2 would make it fit. Step time now: %3.").arg(helpful).arg(all, step);
    QString text = sentence(advice.situation) + QLatin1Char(' ') + sum;
    if (error) {
        text += QLatin1Char(' ') + sentence(model_error_text(*error));
    }
    if (const std::optional<RecordedLayout>& layout = model_.layout()) {
        text +=
            tr(" Step times are those of whole steps, in which %1 after the pipeline are kept; bubbles are those of "
               "the pipeline.")
                .arg(formatDuration(layout->step.after_pipeline().count()));
    }
    say(noiseFollows_ ? tr("Without noise so far, the expected steps follow … %1").arg(text) : text);
    rows_->setMoves(std::move(rows), noiseFollows_);
    table_->selectRow(selected);
    selectWanted();
    refreshButtons();
}

void AdvicePanel::refreshButtons() {
    const std::optional<AdviceRow> row = rows_->rowAt(table_->currentIndex().row());
    try_->setEnabled(row.has_value());
    check_->setEnabled(row.has_value());
    bubbles_->setEnabled(row && model_.hasRecording() && root_against(row->move.kind));
}

void AdvicePanel::selectKind(std::vector<MoveKind> kinds) {
    wanted_ = std::move(kinds);
    selectWanted();
}

void AdvicePanel::selectWanted() {
    for (const MoveKind kind : wanted_) {
        for (int row = 0; row < rows_->rowCount(); ++row) {
            if (rows_->rowAt(row)->move.kind == kind) {
                wanted_.clear();
                table_->selectRow(row);
                table_->scrollTo(rows_->index(row, 0));
                return;
            }
        }
    }
}

void AdvicePanel::copyCheck() {
    const std::optional<AdviceRow> row = rows_->rowAt(table_->currentIndex().row());
    if (!row || !advice_) {
        return;
    }
    const QString command = QString::fromStdString(check_command(*advice_, row->move, model_.profile().value()->model));
    if (command.isEmpty()) {
        Q_EMIT said(tr("No run can check this change: 'pipescope run' has no option for it."));
        return;
    }
    QApplication::clipboard()->setText(command);
    Q_EMIT said(tr("Copied: %1. It runs both in turns, and says which is faster.").arg(command));
}

void AdvicePanel::finish() {
    complete_ = true;
    Q_EMIT advised();
}

void AdvicePanel::say(const QString& text) {
    message_->setText(text);
}

void AdvicePanel::tryRow(int row) {
    if (const std::optional<AdviceRow> chosen = rows_->rowAt(row)) {
        Q_EMIT tried(asAsked(chosen->move.simulation.options, model_.scenario().deviceType),
                     QString::fromStdString(chosen->move.title));
    }
}

bool AdvicePanel::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && pressesEnter(*event)) {
        tryRow(table_->currentIndex().row());
        return true;
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
