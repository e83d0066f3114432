#include "gui/plan/cluster_plan_form.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/quantities.h"
#include "gui/plan/tick_list.h"
#include "gui/style/arrange.h"
#include "gui/style/file_name.h"
#include "gui/style/number_format.h"
#include "schedule/schedules.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr double kNsPerSecond = 1e9;

[[noreturn]] void refuseInput(const QString& what, const QString& text, const QString& rule) {
    throw UsageError((what + ClusterPlanForm::tr(" is '%1'; %2; correct it").arg(text, rule)).toStdString());
}

Cluster clusterOf(const ClusterPlanInput& input) {
    if (input.cluster.isEmpty()) {
        throw UsageError("no cluster is named; a plan needs a cluster file; choose one");
    }
    Cluster cluster =
        with_types(load_cluster(pathOf(input.cluster).string(),
                                input.catalogue.isEmpty() ? device_catalogue()
                                                          : load_device_catalogue(pathOf(input.catalogue).string())),
                   input.deviceTypes.toStdString());
    for (NodeGroup& group : cluster.groups) {
        if (!input.headroom.isEmpty()) {
            set_headroom(group.device, parse_bytes(input.headroom.toStdString(), "headroom"));
        }
    }
    return cluster;
}

bool isModel(const ClusterPlanInput& input) {
    return !input.model.isEmpty();
}

PipelineOptions profileOptions(const ClusterPlanInput& input) {
    PipelineOptions options;
    options.checkpoint = Checkpoint::never;
    if (!input.optimizer.isEmpty()) {
        options.optimizer = input.optimizer.toStdString();
        optimizer_state_factor(options.optimizer);  // throws for an unknown name
    }
    return options;
}

double secondsOf(const QString& text, const QString& what, double unless) {
    return text.isEmpty() ? unless : parse_duration_ns(text.toStdString(), what.toStdString()) / kNsPerSecond;
}

void readDevices(const ClusterPlanInput& input, ClusterPlanRequest& request) {
    if (input.devices.isEmpty()) {
        return;
    }
    request.devices = parse_ranges(input.devices.toStdString(), "devices");
}

void readTokens(const ClusterPlanInput& input, ClusterPlanRequest& request) {
    if (!input.hasTokens()) {
        return;
    }
    constexpr double kMostTokens = 1e18;
    bool isNumber = false;
    request.tokens = input.tokens.toDouble(&isNumber);
    if (!isNumber || !(request.tokens >= 1 && request.tokens <= kMostTokens)) {
        refuseInput(ClusterPlanForm::tr("the number of tokens"), input.tokens,
                    ClusterPlanForm::tr("it is a number from 1 to 1e18, such as 1e12, or empty for one step"));
    }
}

void readFailures(const ClusterPlanInput& input, ClusterPlanRequest& request) {
    const QString checkpoint = ClusterPlanForm::tr("time to write a save");
    request.checkpoint_seconds = secondsOf(input.checkpointTime, checkpoint, request.checkpoint_seconds);
    if (!(request.checkpoint_seconds > 0)) {
        refuseInput(checkpoint, input.checkpointTime, ClusterPlanForm::tr("saving takes some time, such as 1s"));
    }
    request.restart_seconds = secondsOf(input.restartTime, ClusterPlanForm::tr("restart"), request.restart_seconds);
    request.repair_hours =
        secondsOf(input.repairTime, ClusterPlanForm::tr("repair of a node"), request.repair_hours * kSecondsPerHour) /
        kSecondsPerHour;
}

ClusterPlanRequest requestOf(const ClusterPlanInput& input) {
    ClusterPlanRequest request;
    request.goal = input.goal;
    bool isNumber = false;
    request.layout.batch = input.batch.toLongLong(&isNumber);
    if (!isNumber || request.layout.batch < 1) {
        refuseInput(ClusterPlanForm::tr("the batch"), input.batch, ClusterPlanForm::tr("it is a whole number from 1"));
    }
    readDevices(input, request);
    readTokens(input, request);
    readFailures(input, request);
    request.schedules.clear();
    for (const std::string& name : input.schedules) {
        request.schedules.push_back(parse_schedule(name));
    }
    request.layout.sends = input.sends;
    request.layout.dispatch = input.dispatch;
    if (!input.gradientBucket.isEmpty()) {
        request.layout.gradient_bucket = parse_bytes(input.gradientBucket.toStdString(), "gradient bucket");
    }
    return request;
}

/// "60s", to be typed as it is.
QString secondsText(double seconds) {
    return QString::number(seconds, 'g', 10) + QLatin1Char('s');
}
}  // namespace

ClusterPlan clusterPlanOf(const ClusterPlanInput& input, std::function<bool(double)> progress) {
    const Cluster cluster = clusterOf(input);
    ClusterPlanRequest request = requestOf(input);
    request.progress = std::move(progress);
    const std::string dtype = input.dtype.toStdString();
    if (isModel(input)) {
        if (!input.optimizer.isEmpty()) {
            refuseInput(ClusterPlanForm::tr("the optimizer"), input.optimizer,
                        ClusterPlanForm::tr("a gpt: model trains with Adam, so it is left out"));
        }
        if (!input.gradientBytes.isEmpty()) {
            request.layout.gradient_bytes = input.gradientBytes.toInt();
        }
        set_dtype(request.layout, dtype);
        return plan_cluster(parse_language_model(input.model.toStdString()), cluster, request);
    }
    if (!input.profile) {
        throw UsageError(
            "no model is named, and no open file has a profile; a plan needs one; name gpt:.. as the model");
    }
    if (request.tokens > 0) {
        refuseInput(ClusterPlanForm::tr("the number of tokens"), input.tokens,
                    ClusterPlanForm::tr("a profile does not know the tokens of a sample, so it is left out"));
    }
    if (!dtype.empty() && dtype != input.profile->dtype) {
        refuseInput(
            ClusterPlanForm::tr("the dtype"), input.dtype,
            ClusterPlanForm::tr("the open file's profile is of %1").arg(QString::fromStdString(input.profile->dtype)));
    }
    if (!input.gradientBytes.isEmpty()) {
        refuseInput(ClusterPlanForm::tr("the size of a gradient"), input.gradientBytes,
                    ClusterPlanForm::tr("a profile has the sizes of its gradients, so it is left out"));
    }
    if (input.dispatch != TokenDispatch::expert) {
        refuseInput(ClusterPlanForm::tr("the dispatch of tokens"), QString::fromStdString(to_string(input.dispatch)),
                    ClusterPlanForm::tr("a profile's layers are whole, so it is left out"));
    }
    set_dtype(request.layout, *input.profile);
    return plan_cluster(*input.profile, profileOptions(input), cluster, request);
}

LayoutStep simulatedCandidate(const ClusterPlanInput& input, const Layout& layout, const std::string& device) {
    const Cluster cluster = clusterOf(input);
    const PipelineParts parts = parse_pipeline_parts(device, cluster, layout.pipeline);
    return isModel(input) ? simulate_layout(parse_language_model(input.model.toStdString()), cluster, parts, layout)
                          : simulate_layout(*input.profile, profileOptions(input), cluster, parts, layout);
}

ClusterPlanForm::ClusterPlanForm(QWidget* parent) : QWidget(parent) {
    createLines();
    createChoices();
    auto* form = new QFormLayout(this);
    form->setContentsMargins(8, 4, 8, 4);
    form->setVerticalSpacing(3);
    form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    form->addRow(tr("&Model"), model_);
    const auto addFile = [&](const QString& name, QLineEdit* line, const QString& title, const QString& filter) {
        QWidget* row = withChoice(line, title, filter);
        form->addRow(name, row);
        static_cast<QLabel*>(form->labelForField(row))->setBuddy(line);
    };
    addFile(tr("&Cluster"), cluster_, tr("Choose a cluster file"), tr("Cluster files (*.json);;All files (*)"));
    addFile(tr("Catalog&ue"), catalogue_, tr("Choose a device catalogue"), tr("Catalogues (*.json);;All files (*)"));
    form->addRow(tr("&Batch"), batch_);
    form->addRow(tr("&Devices"), devices_);
    form->addRow(tr("De&vice types"), deviceTypes_);
    form->addRow(tr("&Headroom"), headroom_);
    form->addRow(tr("&Tokens"), tokens_);
    form->addRow(tr("&Rank by"), goal_);
    form->addRow(tr("Dt&ype"), dtype_);
    form->addRow(tr("Opt&imizer"), optimizer_);
    form->addRow(tr("&Schedules"), schedules_);
    form->addRow(tr("S&ends"), sends_);
    form->addRow(tr("Toke&n dispatch"), tokenDispatch_);
    form->addRow(tr("Bytes o&f a gradient"), gradientBytes_);
    form->addRow(tr("&Gradient bucket"), gradientBucket_);
    form->addRow(tr("Time to &write a save"), checkpointTime_);
    form->addRow(tr("Rest&art"), restartTime_);
    form->addRow(tr("Repair &of a node"), repairTime_);
}

QLineEdit* ClusterPlanForm::createLine(const QString& name, const QString& hint, const QString& about) {
    auto* line = named(new QLineEdit(this), name, about);
    line->setPlaceholderText(hint);
    line->setMinimumWidth(fontMetrics().averageCharWidth() * 24);
    connect(line, &QLineEdit::returnPressed, this, &ClusterPlanForm::submitted);
    return line;
}

void ClusterPlanForm::createLines() {
    const ClusterPlanRequest usual;
    model_ = createLine(
        tr("Model"), tr("the open file's profile, or gpt:layers=24,…"),
        tr("gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200; empty: the profile of the open file"));
    cluster_ = createLine(tr("Cluster file"), tr("cluster.json or dgx-h100"),
                          tr("A file with nodes, links, prices and failures, or the name of a built-in cluster"));
    catalogue_ = createLine(tr("Device catalogue"), tr("the built-in one"),
                            tr("A file with the cluster's types of devices: rates, memory, prices"));
    headroom_ = createLine(tr("Headroom"), tr("the catalogue's, or 4GiB"),
                           tr("Memory of each device that tensors leave free for context, collectives and allocator"));
    deviceTypes_ = createLine(tr("Device types"), tr("all, or A100,H100"), tr("Types of the cluster to plan for"));
    optimizer_ = createLine(
        tr("Optimizer"), tr("a profile's: %1").arg(QString::fromStdString(PipelineOptions{}.optimizer)),
        tr("Of a profile: a name such as adam, or bytes of state for each byte of parameters. A gpt: model has Adam"));
    batch_ = createLine(tr("Batch"), tr("samples per step"), tr("Samples per step, over all replicas"));
    batch_->setText(QStringLiteral("512"));
    devices_ = createLine(tr("Devices"), tr("all, or 8,64..512"), tr("Numbers of devices of one type"));
    tokens_ = createLine(tr("Tokens"), tr("one step, or 1e12"), tr("Length of the whole run"));
    gradientBucket_ = createLine(tr("Gradient bucket"), tr("none, or 40MB"),
                                 tr("Replicas sum gradients in parts of this size while the last backward makes them; "
                                    "none: at the lane's end"));
    checkpointTime_ =
        createLine(tr("Time to write a save"), secondsText(usual.checkpoint_seconds),
                   tr("How long a save stops the training. The best interval between saves follows from it"));
    restartTime_ = createLine(tr("Restart"), secondsText(usual.restart_seconds),
                              tr("Time from a failure until the training continues from the last saved step"));
    repairTime_ = createLine(tr("Repair of a node"), secondsText(usual.repair_hours * kSecondsPerHour),
                             tr("Time until a failed node is back. It determines the spare nodes"));
}

void ClusterPlanForm::createChoices() {
    goal_ =
        named(new QComboBox(this), tr("Rank by"), tr("The quickest step, the cheapest run or its earliest end first"));
    for (const ClusterGoal goal : {ClusterGoal::step, ClusterGoal::cost, ClusterGoal::time}) {
        goal_->addItem(QString::fromStdString(to_string(goal)), static_cast<int>(goal));
    }
    dtype_ = named(new QComboBox(this), tr("Dtype"), tr("Of parameters and activations. A profile has its own"));
    dtype_->addItem(tr("usual: %1, or the profile's").arg(QString::fromStdString(Layout{}.dtype)), QString());
    for (const std::string& each : dtypes()) {
        dtype_->addItem(QString::fromStdString(each), QString::fromStdString(each));
    }
    constexpr int kSchedulesInView = 4;
    schedules_ = createTicks(tr("Schedules to try on the cluster"), kSchedulesInView, this);
    schedules_->setToolTip(tr("auto searches an order for the eight best layouts, which takes long"));
    const std::vector<Schedule> usual = ClusterPlanRequest{}.schedules;
    const auto isUsual = [&](const Schedule& each) { return std::ranges::find(usual, each) != usual.end(); };
    std::vector<Schedule> listed = all_schedules();
    listed.emplace_back(Schedule::automatic);
    std::erase_if(listed, [](const Schedule& each) { return !is_synchronous(each); });
    std::ranges::stable_partition(listed, isUsual);
    for (const Schedule& each : listed) {
        addTick(*schedules_, to_string(each), isUsual(each));
    }
    sends_ = named(new QComboBox(this), tr("Sends"),
                   tr("blocking: a lane waits for its sends, as in Megatron-LM; serial: it handles one message after "
                      "the other, as in DeepSpeed"));
    for (const Sends sends : {Sends::blocking, Sends::serial, Sends::overlapped}) {
        sends_->addItem(QString::fromStdString(to_string(sends)), static_cast<int>(sends));
    }
    tokenDispatch_ = named(new QComboBox(this), tr("Token dispatch"),
                           tr("Of a gpt: model with experts. expert: a token's copies go to each of its experts; node: "
                              "one goes to each node that holds some of them, as with DeepEP"));
    for (const TokenDispatch dispatch : {TokenDispatch::expert, TokenDispatch::node}) {
        tokenDispatch_->addItem(QString::fromStdString(to_string(dispatch)), static_cast<int>(dispatch));
    }
    gradientBytes_ = named(new QComboBox(this), tr("Bytes of a gradient"),
                           tr("Of each gradient of a gpt: model, as it is kept and summed. A profile has its own"));
    gradientBytes_->addItem(tr("usual: %1, or 8 for float64").arg(Layout{}.gradient_bytes), QString());
    for (const int bytes : {2, 4, 8}) {
        gradientBytes_->addItem(QString::number(bytes), QString::number(bytes));
    }
}

void ClusterPlanForm::setCluster(const QString& path) {
    cluster_->setText(path);
}

QWidget* ClusterPlanForm::withChoice(QLineEdit* line, const QString& title, const QString& filter) {
    auto* row = new QWidget(this);
    row->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    auto* choose = named(new QPushButton(tr("Choose…"), row), title);
    connect(choose, &QPushButton::clicked, this, [this, line, title, filter] {
        const QString path = QFileDialog::getOpenFileName(this, title, line->text(), filter);
        if (!path.isEmpty()) {
            line->setText(path);
        }
    });
    arrange(new QHBoxLayout(row), {0, 0, 0, 0}, 2, {{line, 1}, choose});
    return row;
}

ClusterPlanInput ClusterPlanForm::input() const {
    ClusterPlanInput input;
    input.model = model_->text().trimmed();
    input.cluster = cluster_->text().trimmed();
    input.catalogue = catalogue_->text().trimmed();
    input.batch = batch_->text().trimmed();
    input.devices = devices_->text().trimmed();
    input.deviceTypes = deviceTypes_->text().trimmed();
    input.headroom = headroom_->text().trimmed();
    input.tokens = tokens_->text().trimmed();
    input.dtype = dtype_->currentData().toString();
    input.optimizer = optimizer_->text().trimmed();
    input.schedules = someTicked(*schedules_, "schedule");
    input.gradientBucket = gradientBucket_->text().trimmed();
    input.sends = static_cast<Sends>(sends_->currentData().toInt());
    input.dispatch = static_cast<TokenDispatch>(tokenDispatch_->currentData().toInt());
    input.gradientBytes = gradientBytes_->currentData().toString();
    input.checkpointTime = checkpointTime_->text().trimmed();
    input.restartTime = restartTime_->text().trimmed();
    input.repairTime = repairTime_->text().trimmed();
    input.goal = static_cast<ClusterGoal>(goal_->currentData().toInt());
    return input;
}
}  // namespace pipescope
