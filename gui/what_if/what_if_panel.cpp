#include "gui/what_if/what_if_panel.h"

#include "gui/style/arrange.h"
#include "gui/style/file_name.h"
#include "gui/style/number_format.h"
#include "gui/style/undo_keys.h"
#include "gui/what_if/lane_speed_editor.h"
#include "gui/what_if/peak_bars.h"
#include "gui/what_if/placement_editor.h"
#include "gui/what_if/presets.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "schedule/schedules.h"
#include "simulator/schedule_file.h"

#include <QComboBox>
#include <QEvent>
#include <QFileDialog>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QStyle>
#include <QToolButton>

#include <algorithm>
#include <array>
#include <cmath>

namespace pipescope {
namespace {
constexpr int kBesideScrollBar = 2;

constexpr int kMostSliderLanes = 64;
constexpr int kMostSliderMicroBatches = 256;
constexpr int kMostSliderBatch = 4096;
constexpr int kMostTypedBatch = 1'000'000;
constexpr const char* kFromFile = QT_TRANSLATE_NOOP("pipescope::WhatIfPanel", "From file…");

/// Control numbers for undo: changes of one control in one gesture are one step.
enum Control { kPartitions, kPerLane, kMicroBatches, kBatch, kBandwidth, kLatency, kSpeeds, kMemoryLimit };

std::vector<double> withNone(std::vector<double> stops) {
    stops.insert(stops.begin(), 0.0);
    return stops;
}

QString symbolOf(ScenarioMessage::Kind kind) {
    switch (kind) {
        case ScenarioMessage::Kind::note: return QStringLiteral("ℹ");
        case ScenarioMessage::Kind::warning: return QStringLiteral("▲");
        case ScenarioMessage::Kind::error: return QStringLiteral("✖");
    }
    return {};
}

QString ownLimitsText(const PipelineOptions& options) {
    QStringList lanes;
    for (const Bytes limit : memory_limits_of(options.hardware, num_lanes(options))) {
        lanes << formatBytes(limit);
    }
    return WhatIfPanel::tr("Lanes have limits of their own: %1. A value here takes their place.")
        .arg(lanes.join(QStringLiteral(", ")));
}

/// What the trace of a layout on a cluster is, and what changes of it keep.
QString layoutText(const RecordedLayout& layout) {
    QString text = WhatIfPanel::tr("This is %1").arg(QString::fromStdString(part_text(layout.step)));
    if (layers_recompute(layout.step, layout.options)) {
        text += WhatIfPanel::tr("; its layers contain their recompute, so that Checkpoint adds another one");
    }
    return text + WhatIfPanel::tr(
                      ". Step time, speedup and rates are those of whole steps. What follows the pipeline is "
                      "kept at %1: the sum of tied weights' gradients, the gathering of parameters, and the "
                      "optimizer.")
                      .arg(formatDuration(layout.step.after_pipeline().count()));
}

/// `none`: shown where all lanes have no limit in common.
ValueRange limitRange(const QString& none) {
    return {withNone(doublingStops(1.0 / 64, 256)), 0, 1e6, 0, none};
}

void choose(QComboBox& choice, const std::string& text) {
    const QSignalBlocker blocker(choice);
    const QString name = QString::fromStdString(text);
    const int index = choice.findText(name);
    if (index >= 0) {
        choice.setCurrentIndex(index);
    } else {
        choice.setEditText(name);  // a custom number; ignored if the choice is fixed
    }
}

/// All that can be chosen by name.
std::vector<Schedule> namedSchedules() {
    std::vector<Schedule> named = all_schedules();
    named.emplace_back(Schedule::automatic);
    return named;
}

/// The name, distinct from all named schedules: a run of schedule auto recorded the table that was found.
QString shownName(const Schedule& schedule) {
    const QString name = QString::fromStdString(to_string(schedule));
    const bool isNamed = std::ranges::any_of(
        namedSchedules(), [&](const Schedule& each) { return to_string(each) == to_string(schedule); });
    return schedule.file() && isNamed ? WhatIfPanel::tr("%1, as found").arg(name) : name;
}

/// The scenario's link, which a bandwidth or latency describes instead of measured times.
Link& withoutTimes(Scenario& scenario) {
    scenario.options.hardware.link.times.clear();
    return scenario.options.hardware.link;
}
}  // namespace

WhatIfPanel::WhatIfPanel(ScenarioModel& model, QWidget* parent) : QWidget(parent), model_(model) {
    empty_ = new QLabel(this);
    setReason({});
    empty_->setWordWrap(true);
    empty_->setAlignment(Qt::AlignCenter);
    empty_->setMargin(12);
    auto* scroll = new QScrollArea(this);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    scroll->setWidget(createForm());
    content_ = scroll;
    scroll->widget()->installEventFilter(this);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, -1, {{empty_, 1}, {content_, 1}});
    setFocusProxy(partitions_);
    connectControls();
    connect(&model_, &ScenarioModel::profileChanged, this, &WhatIfPanel::showProfile);
    connect(&model_, &ScenarioModel::scenarioChanged, this, &WhatIfPanel::showScenario);
    connect(&model_, &ScenarioModel::simulated, this, &WhatIfPanel::showResult);
    connect(&model_, &ScenarioModel::bandChanged, this, &WhatIfPanel::showBand);
    connect(&model_, &ScenarioModel::modelErrorChanged, this, [this] {
        if (model_.result()) {
            showResult();
        }
    });
    connect(&model_, &ScenarioModel::failed, this, &WhatIfPanel::say);
    showProfile();
}

WhatIfPanel::~WhatIfPanel() {
    // Closing the window moves the focus, which makes the field emit its text while the panel is half destroyed.
    for (QObject* each : findChildren<QObject*>()) {
        each->disconnect(this);
    }
}

bool WhatIfPanel::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::LayoutRequest || event->type() == QEvent::Show) {
        // The panel does not scroll horizontally, so its content must never be wider, whatever the figures.
        const int needed = static_cast<QWidget*>(watched)->minimumSizeHint().width();
        content_->setMinimumWidth(needed + style()->pixelMetric(QStyle::PM_ScrollBarExtent) + kBesideScrollBar);
    }
    return QWidget::eventFilter(watched, event);
}

QWidget* WhatIfPanel::createForm() {
    auto* form = new QWidget(this);
    title_ = new QLabel(form);
    title_->setWordWrap(true);
    figures_ = new ScenarioFigures(form);
    basis_ = new QLabel(form);
    basis_->setToolTip(tr("The dtype of the profile's parameters and activations"));
    QWidget* buttons = createButtons();
    form_ = new QFormLayout();
    form_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    form_->setVerticalSpacing(4);
    addPipelineRows(*form_);
    addHardwareRows(*form_);
    auto* peakTitle = new QLabel(tr("Peak memory of each lane; red: the limit"), form);
    peaks_ = new PeakBars(form);
    messages_ = named(new QLabel(form), tr("Messages about the scenario"));
    messages_->setWordWrap(true);
    messages_->setTextFormat(Qt::PlainText);
    messages_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    arrange(new QVBoxLayout(form), {8, 6, 8, 6}, -1,
            {title_, figures_, basis_, buttons, form_, peakTitle, peaks_, messages_, {nullptr, 1}});
    return form;
}

QWidget* WhatIfPanel::createButtons() {
    auto* buttons = new QWidget(this);
    auto* presetButton = new QToolButton(buttons);
    presetButton->setText(tr("&Presets"));
    presetButton->setToolButtonStyle(Qt::ToolButtonTextOnly);
    presetButton->setPopupMode(QToolButton::InstantPopup);
    presetButton->setFocusPolicy(Qt::StrongFocus);
    auto* menu = new QMenu(presetButton);
    QString group;
    for (const Preset& preset : presets()) {
        if (preset.group != group) {
            menu->addSection(preset.group);
            group = preset.group;
        }
        menu->addAction(preset.name, this, [this, &preset] {
            if (!model_.isEmpty()) {
                model_.startGesture();
                model_.change(preset.change(*model_.profile(), model_.scenario()), preset.name);
            }
        });
    }
    presetButton->setMenu(menu);
    auto* pin = new QPushButton(tr("P&in"), buttons);
    pin->setToolTip(tr("Keep this scenario, to compare others with it"));
    back_ = new QPushButton(tr("&As recorded"), buttons);
    back_->setToolTip(tr("Reset to what was recorded"));
    connect(pin, &QPushButton::clicked, this, &WhatIfPanel::pinRequested);
    connect(back_, &QPushButton::clicked, &model_, &ScenarioModel::backToRecorded);
    arrange(new QHBoxLayout(buttons), {0, 2, 0, 2}, -1, {presetButton, pin, back_, {nullptr, 1}});
    return buttons;
}

QWidget* WhatIfPanel::createBalanceButtons(QWidget* parent) {
    auto* buttons = new QWidget(parent);
    auto* line = new QHBoxLayout(buttons);
    line->setContentsMargins(0, 0, 0, 0);
    struct Choice {
        BalanceAlgorithm algorithm;
        QString name;
        QString help;
    };
    const std::array choices{
        Choice{BalanceAlgorithm::optimal, tr("&Optimal"), tr("Cut where the simulated step is shortest")},
        Choice{BalanceAlgorithm::minmax, tr("&Even"), tr("minmax: make the largest partition as small as possible")},
        Choice{BalanceAlgorithm::block, tr("B&lock"), tr("Cut as torchgpipe does")}};
    for (const Choice& choice : choices) {
        auto* button = new QPushButton(choice.name, buttons);
        button->setToolTip(choice.help);
        connect(button, &QPushButton::clicked, &model_,
                [this, algorithm = choice.algorithm] { model_.applyBalance(algorithm); });
        line->addWidget(button);
    }
    return buttons;
}

void WhatIfPanel::addPipelineRows(QFormLayout& form) {
    partitions_ = new ValueSlider(tr("Partitions"), Quantity::number, {{1}, 1, 1, 0, {}}, this);
    perLane_ = new ValueSlider(tr("Partitions on each lane"), Quantity::number, {{1}, 1, 1, 0, {}}, this);
    microBatches_ = new ValueSlider(tr("Micro-batches"), Quantity::number,
                                    {wholeStops(1, kMostSliderMicroBatches), 1, kMostMicroBatches, 0, {}}, this);
    batch_ = new ValueSlider(tr("Batch"), Quantity::number,
                             {wholeStops(1, kMostSliderBatch), 1, kMostTypedBatch, 0, {}}, this);
    checkpoint_ = named(new QComboBox(this), tr("Checkpoint mode"));
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        checkpoint_->addItem(QString::fromStdString(to_string(mode)));
    }
    schedule_ = named(new QComboBox(this), tr("Schedule"));
    for (const Schedule& schedule : namedSchedules()) {
        schedule_->addItem(QString::fromStdString(to_string(schedule)));
    }
    schedule_->addItem(tr(kFromFile));
    schedule_->setToolTip(tr("auto: the order with the shortest step, found for these costs and limits"));
    update_ = named(new QComboBox(this), tr("Updates"));
    for (const Update update : {Update::synchronous, Update::staggered}) {
        update_->addItem(QString::fromStdString(to_string(update)));
    }
    update_->setToolTip(
        tr("staggered: each lane updates its parameters after its own last task, and continues with the next step. A "
           "layout on a cluster has synchronous updates"));
    form.addRow(tr("Partitions K"), partitions_);
    form.addRow(tr("on each lane"), perLane_);
    form.addRow(tr("Balance"), createBalanceButtons(this));
    form.addRow(tr("Micro-batches M"), microBatches_);
    form.addRow(tr("Batch"), batch_);
    form.addRow(tr("Checkpoint"), checkpoint_);
    form.addRow(tr("Schedule"), schedule_);
    form.addRow(tr("Updates"), update_);
    schedule_->setAccessibleName(tr("Schedule"));
}

void WhatIfPanel::addHardwareRows(QFormLayout& form) {
    bandwidth_ = new ValueSlider(tr("Link bandwidth"), Quantity::rate,
                                 {withNone(decadeStops(0.01, 1000)), 0, 1e6, 0, tr("unlimited")}, this);
    latency_ = new ValueSlider(tr("Link latency"), Quantity::duration,
                               {withNone(decadeStops(0.1, 10'000)), 0, 1e9, 0, tr("none")}, this);
    memoryLimit_ = new ValueSlider(tr("Memory limit of a lane"), Quantity::bytes, limitRange(tr("no limit")), this);
    speeds_ = new LaneSpeedEditor(this);
    optimizer_ =
        named(new QComboBox(this), tr("Optimizer"), tr("A name, or bytes of state for each byte of parameters"));
    optimizer_->setEditable(true);
    optimizer_->setInsertPolicy(QComboBox::NoInsert);
    new UndoKeys(*optimizer_, *optimizer_->lineEdit());
    for (const char* name : {"sgd", "momentum", "adam", "adamw", "amsgrad", "adadelta", "adagrad", "rmsprop"}) {
        optimizer_->addItem(QString::fromLatin1(name));
    }
    form.addRow(tr("Link bandwidth"), bandwidth_);
    form.addRow(tr("Link latency"), latency_);
    form.addRow(tr("Speed of"), speeds_);
    placement_ = new PlacementEditor(form, *this);
    form.addRow(tr("Optimizer"), optimizer_);
    form.addRow(tr("Memory limit"), memoryLimit_);
}

void WhatIfPanel::connectSlider(ValueSlider& slider, int control, const QString& what,
                                std::function<void(Scenario&, double)> change) {
    connect(&slider, &ValueSlider::gestureStarted, &model_, &ScenarioModel::startGesture);
    connect(&slider, &ValueSlider::refused, this, &WhatIfPanel::say);
    connect(&slider, &ValueSlider::valueChanged, this, [this, control, what, change = std::move(change)](double value) {
        Scenario next = model_.scenario();
        change(next, value);
        model_.change(next, what, control);
    });
}

void WhatIfPanel::connectChoice(QComboBox& choice, const QString& what,
                                std::function<void(Scenario&, const std::string&)> change) {
    connect(&choice, &QComboBox::textActivated, this, [this, what, change = std::move(change)](const QString& text) {
        changeTo(what, [&](Scenario& next) { change(next, text.toStdString()); });
    });
}

/// Makes one step of undo, or says why the change is refused.
void WhatIfPanel::changeTo(const QString& what, const std::function<void(Scenario&)>& change) {
    Scenario next = model_.scenario();
    try {
        change(next);
    } catch (const Error& error) {
        say(QString::fromUtf8(error.what()));
        return;
    }
    model_.startGesture();
    model_.change(next, what);
}

/// Takes the name of a schedule, the last entry, which asks for a file, or the name of the present file.
void WhatIfPanel::chooseSchedule(const QString& name) {
    const QString shown = shownName(model_.scenario().options.schedule);
    if (name == tr(kFromFile)) {
        const QString path =
            QFileDialog::getOpenFileName(this, tr("Open a schedule"), {}, tr("Schedules (*.csv);;All files (*)"));
        if (!path.isEmpty()) {
            openSchedule(path);
        }
    } else if (name != shown) {
        changeTo(tr("schedule"), [&](Scenario& next) {
            next = withSchedule(*model_.profile(), next, parse_schedule(name.toStdString()));
        });
    }
    showSchedule(model_.scenario().options.schedule);
}

void WhatIfPanel::openSchedule(const QString& path) {
    changeTo(tr("schedule"), [&](Scenario& next) {
        next = withSchedule(*model_.profile(), next, load_schedule(pathOf(path).string()));
    });
}

/// A schedule from a file stands above the entry that asks for one.
void WhatIfPanel::showSchedule(const Schedule& schedule) {
    const QSignalBlocker blocker(*schedule_);
    const int named = static_cast<int>(namedSchedules().size());
    while (schedule_->count() > named + 1) {
        schedule_->removeItem(named);
    }
    if (schedule.file()) {
        schedule_->insertItem(named, shownName(schedule));
    }
    schedule_->setCurrentIndex(schedule_->findText(shownName(schedule)));
}

void WhatIfPanel::connectControls() {
    connectSlider(*partitions_, kPartitions, tr("partitions"), [this](Scenario& next, double value) {
        next = withLanes(*model_.profile(), next, static_cast<int>(value), partitionsPerLane(next));
    });
    connectSlider(*perLane_, kPerLane, tr("partitions on each lane"), [this](Scenario& next, double value) {
        next = withLanes(*model_.profile(), next, lanesOf(next), static_cast<int>(value));
    });
    connectSlider(*microBatches_, kMicroBatches, tr("micro-batches"),
                  [](Scenario& next, double value) { next.options.chunks = static_cast<std::int64_t>(value); });
    connectSlider(*batch_, kBatch, tr("batch"),
                  [](Scenario& next, double value) { next.options.batch = static_cast<std::int64_t>(value); });
    connectSlider(*bandwidth_, kBandwidth, tr("link bandwidth"),
                  [](Scenario& next, double value) { withoutTimes(next).bytes_per_second = value * 1e9; });
    connectSlider(*latency_, kLatency, tr("link latency"),
                  [](Scenario& next, double value) { withoutTimes(next).latency_ns = value * 1e3; });
    connectSlider(*memoryLimit_, kMemoryLimit, tr("memory limit"), [](Scenario& next, double value) {
        next.options.hardware.memory_limit.reset();
        next.options.hardware.memory_limits.clear();
        if (value > 0) {
            next.options.hardware.memory_limit = std::max<Bytes>(1, std::llround(value * kGiB));
        }
    });
    connect(speeds_, &LaneSpeedEditor::gestureStarted, &model_, &ScenarioModel::startGesture);
    connect(speeds_, &LaneSpeedEditor::refused, this, &WhatIfPanel::say);
    connect(speeds_, &LaneSpeedEditor::speedsChanged, this, [this](const std::vector<double>& speeds) {
        Scenario next = model_.scenario();
        next.options.hardware.speeds = speeds;
        model_.change(next, tr("lane speeds"), kSpeeds);
    });
    connect(placement_, &PlacementEditor::changed, this, &WhatIfPanel::changeTo);
    connect(placement_, &PlacementEditor::failed, this, &WhatIfPanel::say);
    connectChoice(*checkpoint_, tr("checkpoint mode"),
                  [](Scenario& next, const std::string& name) { next.options.checkpoint = parse_checkpoint(name); });
    connectChoice(*update_, tr("updates"),
                  [](Scenario& next, const std::string& name) { next.options.update = parse_update(name); });
    connect(schedule_, &QComboBox::textActivated, this, &WhatIfPanel::chooseSchedule);
    connectChoice(*optimizer_, tr("optimizer"), [this](Scenario& next, const std::string& name) {
        optimizer_state_factor(name);  // throws for an unknown name
        next.options.optimizer = name;
        optimizer_->lineEdit()->setModified(false);
    });
}

void WhatIfPanel::setReason(const QString& why) {
    empty_->setText(why.isEmpty()
                        ? tr("No what-if: this file contains no profile. Record a run with a profile, or open "
                             "a profile.")
                        : tr("No what-if: this file %1").arg(why));
}

void WhatIfPanel::showProfile() {
    content_->setVisible(!model_.isEmpty());
    empty_->setVisible(model_.isEmpty());
    if (model_.isEmpty()) {
        return;
    }
    const int layers = static_cast<int>(std::min<std::size_t>((*model_.profile())->layers.size(), kMostPartitions));
    const int most = std::min(layers, std::max(kMostSliderLanes, lanesOf(model_.recorded())));
    partitions_->setRange({wholeStops(1, most), 1, static_cast<double>(layers), 0, {}});
    perLane_->setRange({wholeStops(1, std::min(layers, 8)), 1, static_cast<double>(layers), 0, {}});
    showScenario();
}

void WhatIfPanel::showScenario() {
    if (model_.isEmpty()) {
        return;
    }
    const Scenario& scenario = model_.scenario();
    const PipelineOptions& options = scenario.options;
    const bool inTurn = placedInTurn(scenario);
    const bool interleaved = inTurn && !options.schedule.file() &&
                             (partitionsPerLane(scenario) > 1 ||
                              (!runs_one_partition_a_lane(options.schedule) && !is_bidirectional(options.schedule)));
    static_cast<QLabel*>(form_->labelForField(partitions_))
        ->setText(interleaved || !inTurn ? tr("Lanes") : tr("Partitions K"));
    partitions_->setValue(lanesOf(scenario));
    perLane_->setValue(partitionsPerLane(scenario));
    perLane_->setVisible(interleaved);
    form_->labelForField(perLane_)->setVisible(interleaved);
    microBatches_->setValue(static_cast<double>(options.chunks));
    batch_->setValue(static_cast<double>(options.batch));
    choose(*checkpoint_, to_string(options.checkpoint));
    showSchedule(options.schedule);
    choose(*update_, to_string(options.update));
    update_->setEnabled(!model_.layout());
    choose(*optimizer_, options.optimizer);
    bandwidth_->setValue(options.hardware.link.bytes_per_second / 1e9);
    latency_->setValue(options.hardware.link.latency_ns / 1e3);
    memoryLimit_->setRange(limitRange(options.hardware.memory_limits.empty() ? tr("no limit") : tr("by lane")));
    memoryLimit_->setToolTip(options.hardware.memory_limits.empty() ? QString() : ownLimitsText(options));
    memoryLimit_->setValue(static_cast<double>(options.hardware.memory_limit.value_or(0)) / kGiB);
    speeds_->setSpeeds(options.hardware.speeds, lanesOf(scenario));
    placement_->setOptions(options);
    back_->setEnabled(!model_.isAsRecorded());
    const bool recorded = model_.hasRecording();
    back_->setText(recorded ? tr("&As recorded") : tr("De&fault"));
    QString title = !model_.isAsRecorded()
                        ? (recorded ? tr("<b>What if</b> – last column: against the recorded pipeline, simulated")
                                    : tr("<b>What if</b> – last column: against the default"))
                    : recorded ? tr("<b>As recorded</b>")
                               : tr("<b>Default scenario</b>");
    if (model_.layout()) {
        title += QStringLiteral("<br>") + layoutText(*model_.layout()).toHtmlEscaped();
    }
    title_->setText(title);
}

QString WhatIfPanel::title() const {
    return title_->text();
}

void WhatIfPanel::showBand() {
    std::optional<StepBand> band = model_.band();
    if (band && model_.layout()) {
        band = longer_by(*band, model_.layout()->step.after_pipeline());
    }
    figures_->setBand(band);
}

void WhatIfPanel::showResult() {
    const std::shared_ptr<const SimulatedScenario>& result = model_.result();
    figures_->setScenario(*result, model_.isAsRecorded() ? nullptr : model_.recordedResult().get());
    peaks_->setScenario(result);
    const std::string& dtype = (*model_.profile())->dtype;
    basis_->setText(tr("dtype %1").arg(QString::fromStdString(dtype)));
    QStringList lines;
    QStringList warnings;
    for (const ScenarioMessage& message : result->messages) {
        lines << symbolOf(message.kind) + QChar(QChar::Nbsp) + message.text;
        if (message.kind != ScenarioMessage::Kind::note) {
            warnings << lines.back();
        }
    }
    if (const QString error = errorText(); !error.isEmpty()) {
        lines << symbolOf(ScenarioMessage::Kind::note) + QChar(QChar::Nbsp) + error;
    }
    messages_->setText(lines.join(QLatin1Char('\n')));
    about_ = warnings.join(QLatin1Char('\n'));
}

/// How sure the change of the step is, given the error of the simulation on the recorded run; empty if that is unknown.
QString WhatIfPanel::errorText() const {
    const std::optional<ModelError>& error = model_.modelError();
    const std::shared_ptr<const SimulatedScenario>& recorded = model_.recordedResult();
    if (!error || model_.isAsRecorded() || !recorded || !recorded->runs() || !model_.result()->runs()) {
        return {};
    }
    const auto [before, after] = comparable_figures(recorded->simulation, model_.result()->simulation);
    const double change = before.step.count() > 0
                              ? static_cast<double>(after.step.count()) / static_cast<double>(before.step.count()) - 1
                              : 0;
    const QString about = QString::fromStdString(model_error_text(*error));
    return error->hides(change) ? tr("The change of the step, %1, cannot be told apart from none: %2.")
                                      .arg(formatShareChange(change), about)
                                : tr("The change of the step, %1, is larger than the error of the simulation: %2.")
                                      .arg(formatShareChange(change), about);
}

void WhatIfPanel::say(const QString& text) {
    const QString refusal = symbolOf(ScenarioMessage::Kind::error) + QChar(QChar::Nbsp) + text + QLatin1Char('\n') +
                            tr("Scenario and figures are those before.");
    messages_->setText(about_.isEmpty() ? refusal : refusal + QLatin1Char('\n') + about_);
}

QString WhatIfPanel::basis() const {
    return basis_->text();
}

QString WhatIfPanel::messages() const {
    return messages_->text();
}
}  // namespace pipescope
