#include "gui/plan/cluster_plan_form.h"

#include "answers/cluster_plan_answer.h"
#include "base/error.h"
#include "gui/plan/tick_list.h"
#include "gui/style/arrange.h"
#include "gui/style/file_name.h"
#include "schedule/schedules.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>

#include <algorithm>
#include <functional>

namespace pipescope {
namespace {
/// The model, or the file of the profile, that is planned for.
ModelOrProfile plannedOf(const ClusterPlanInput& input) {
    if (!input.model.isEmpty()) {
        parse_language_model(input.model.toStdString());  // any other text would be the name of a profile's file
        return {input.model.toStdString(), nullptr};
    }
    if (!input.profile) {
        throw UsageError(
            "no model is named, and no open file has a profile; a plan needs one; name gpt:.. as the model");
    }
    return {"profile.json", &*input.profile};
}

void take(AskedPlan& asked, const ClusterPlanInput& input) {
    if (!input.has("cluster")) {
        throw UsageError("no cluster is named; a plan needs a cluster file; choose one");
    }
    asked.options.take(input.values);
    asked.check(plannedOf(input));
}

/// "60s", to be typed as it is.
QString secondsText(double seconds) {
    return QString::number(seconds, 'g', 10) + QLatin1Char('s');
}
}  // namespace

bool ClusterPlanInput::has(std::string_view option) const {
    return std::ranges::find(values, option, &OptionValue::name) != values.end();
}

ClusterPlan clusterPlanOf(const ClusterPlanInput& input, const std::function<bool(double)>& progress) {
    AskedPlan asked;
    take(asked, input);
    return cluster_plan_of(plannedOf(input), asked, progress);
}

LayoutStep simulatedCandidate(const ClusterPlanInput& input, const Layout& layout, const std::string& device) {
    AskedPlan asked;
    take(asked, input);
    return simulated_candidate(plannedOf(input), asked.cluster, asked.lanes.pipeline, layout, device);
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
    form->addRow(tr("P&rogram"), program_);
    addFile(tr("Measured steps"), measured_, tr("Choose a CSV of measured steps"),
            tr("CSV files (*.csv);;All files (*)"));
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
        tr("gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200, or hf: and the path of a Hugging Face "
           "config.json; empty: the profile of the open file"));
    cluster_ = createLine(tr("Cluster file"), tr("cluster.json or dgx-h100"),
                          tr("A file with nodes, links, prices and failures, or the name of a built-in cluster"));
    catalogue_ = createLine(tr("Device catalogue"), tr("the built-in one"),
                            tr("A file with the cluster's types of devices: rates, memory, prices"));
    headroom_ = createLine(tr("Headroom"), tr("the catalogue's, or 4GiB"),
                           tr("Memory of each device that tensors leave free for context, collectives and allocator"));
    deviceTypes_ = createLine(tr("Device types"), tr("all, or A100,H100"), tr("Types of the cluster to plan for"));
    optimizer_ = createLine(
        tr("Optimizer"), tr("adam; a profile's: %1").arg(QString::fromStdString(PipelineOptions{}.optimizer)),
        tr("Of a gpt: model: adam, bf16-adam, adam8bit, adafactor, muon, momentum or sgd. Of a profile: a name such as "
           "adam, or bytes of state for each byte of parameters"));
    program_ = createLine(tr("Program"), tr("none, or nemo, fsdp, ours.json"),
                          tr("How a training program runs a gpt: model: a name or a file; none: kernels at their usual "
                             "rates, and nothing else"));
    measured_ = createLine(tr("Measured steps"), tr("none, or runs.csv"),
                           tr("A CSV of measured steps of the gpt: model, whose columns are options of simulate and "
                              "seconds. The program is fitted to them, and the plan uses it"));
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
        goal_->addItem(QString::fromStdString(to_string(goal)), QString::fromStdString(to_string(goal)));
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
        sends_->addItem(QString::fromStdString(to_string(sends)), QString::fromStdString(to_string(sends)));
    }
    tokenDispatch_ = named(new QComboBox(this), tr("Token dispatch"),
                           tr("Of a gpt: model with experts. expert: a token's copies go to each of its experts; node: "
                              "one goes to each node that holds some of them, as with DeepEP"));
    for (const TokenDispatch dispatch : {TokenDispatch::expert, TokenDispatch::node}) {
        const bool isLeftOut = dispatch == Layout{}.dispatch;  // since a profile refuses the option
        tokenDispatch_->addItem(QString::fromStdString(to_string(dispatch)),
                                isLeftOut ? QString() : QString::fromStdString(to_string(dispatch)));
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
    const auto add = [&input](const char* option, const std::string& text) {
        if (!text.empty()) {
            input.values.push_back({option, text});
        }
    };
    const auto addLine = [&add](const char* option, const QLineEdit* line) {
        add(option, line->text().trimmed().toStdString());
    };
    const auto addChoice = [&add](const char* option, const QComboBox* box) {
        add(option, box->currentData().toString().toStdString());
    };
    add("cluster", pathOf(cluster_->text().trimmed()).string());
    add("device-catalogue", pathOf(catalogue_->text().trimmed()).string());
    addLine("batch", batch_);
    addLine("devices", devices_);
    addLine("device-types", deviceTypes_);
    addLine("headroom", headroom_);
    addLine("tokens", tokens_);
    addChoice("dtype", dtype_);
    addLine("optimizer", optimizer_);
    addLine("program", program_);
    add("measured", pathOf(measured_->text().trimmed()).string());
    input.values.push_back({"schedule", someTicked(*schedules_, "schedule")});
    addLine("gradient-bucket", gradientBucket_);
    addChoice("sends", sends_);
    addChoice("token-dispatch", tokenDispatch_);
    addChoice("gradient-bytes", gradientBytes_);
    addLine("checkpoint-time", checkpointTime_);
    addLine("restart-time", restartTime_);
    addLine("repair-time", repairTime_);
    addChoice("rank-by", goal_);
    return input;
}
}  // namespace pipescope
