#include "gui/plan/plan_form.h"

#include "base/number_ranges.h"
#include "gui/plan/tick_list.h"
#include "gui/style/arrange.h"
#include "gui/style/file_name.h"
#include "gui/style/number_format.h"
#include "gui/style/quantity_box.h"
#include "hardware/device_catalogue.h"
#include "schedule/schedules.h"
#include "simulator/schedule_file.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
PlanForm::PlanForm(QWidget* parent)
    : QWidget(parent),
      partitions_(new QLineEdit(QStringLiteral("1..8"), this)),
      chunks_(new QLineEdit(QStringLiteral("1..64"), this)),
      batch_(new QuantityBox(tr("Batch"), Quantity::number, this)),
      memoryLimit_(new QuantityBox(tr("Memory limit"), Quantity::bytes, this)),
      algorithm_(new QComboBox(this)),
      checkpoints_(createTicks(tr("Checkpoint modes to try"), 3, this)),
      schedules_(createTicks(tr("Schedules to try"), 3, this)),
      devices_(createTicks(tr("Device types to try; none: the profiled device"), 4, this)) {
    partitions_->setToolTip(tr("Such as 4, 1,2,4 or 1..8"));
    chunks_->setToolTip(
        tr("Such as 8, 4,8,12 or 1..64; a range means its ends, the powers of two and the batch's "
           "divisors"));
    batch_->setRange(1, 1'000'000);
    memoryLimit_->setRange(0, 1e6);
    memoryLimit_->setSpecialValueText(tr("no limit"));
    connect(batch_, &QuantityBox::refused, this, &PlanForm::refused);
    connect(memoryLimit_, &QuantityBox::refused, this, &PlanForm::refused);
    for (const BalanceAlgorithm each : {BalanceAlgorithm::optimal, BalanceAlgorithm::minmax, BalanceAlgorithm::block}) {
        algorithm_->addItem(QString::fromStdString(to_string(each)));
    }
    for (const Checkpoint mode : {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}) {
        addTick(*checkpoints_, to_string(mode), true);
    }
    listed_ = all_schedules();
    listed_.emplace_back(Schedule::automatic);
    for (const Schedule& each : listed_) {
        addTick(*schedules_, to_string(each), each == Schedule::gpipe);
    }
    for (const DeviceType& type : device_catalogue()) {
        addTick(*devices_, type.name, false);
    }
    auto* form = new QFormLayout(this);
    form->setContentsMargins(8, 4, 8, 4);
    form->setVerticalSpacing(3);
    form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    form->addRow(tr("&Partitions"), partitions_);
    form->addRow(tr("Micro-&batches"), chunks_);
    form->addRow(tr("Ba&tch"), batch_);
    form->addRow(tr("Memory &limit"), memoryLimit_);
    form->addRow(tr("B&alance"), algorithm_);
    form->addRow(tr("&Checkpoint"), checkpoints_);
    form->addRow(tr("&Schedules"), createScheduleChoice());
    static_cast<QLabel*>(form->labelForField(schedules_->parentWidget()))->setBuddy(schedules_);
    form->addRow(tr("&Devices"), devices_);
}

QWidget* PlanForm::createScheduleChoice() {
    auto* choice = new QWidget(this);
    auto* add = new QPushButton(tr("Add a fil&e…"), choice);
    add->setToolTip(tr("Add the schedule of a CSV file to the list"));
    connect(add, &QPushButton::clicked, this, [this] {
        const QString path =
            QFileDialog::getOpenFileName(this, tr("Add a schedule"), {}, tr("Schedules (*.csv);;All files (*)"));
        if (!path.isEmpty()) {
            addSchedule(path);
        }
    });
    arrange(new QVBoxLayout(choice), {0, 0, 0, 0}, 2, {schedules_, add});
    return choice;
}

void PlanForm::addSchedule(const QString& path) {
    try {
        const Schedule schedule = load_schedule(pathOf(path).string());
        const auto same = std::ranges::find(listed_, schedule);
        if (same != listed_.end()) {
            schedules_->item(static_cast<int>(same - listed_.begin()))->setCheckState(Qt::Checked);
            return;
        }
        listed_.push_back(schedule);
        addTick(*schedules_, to_string(schedule), true);
        schedules_->scrollToBottom();
    } catch (const Error& error) {
        Q_EMIT refused(QString::fromUtf8(error.what()));
    }
}

void PlanForm::setOptions(const PipelineOptions& options) {
    options_ = options;
    showBatch();
    showMemoryLimit();
}

void PlanForm::follow(const PipelineOptions& options) {
    const PipelineOptions before = std::exchange(options_, options);
    if (options.batch != before.batch) {
        showBatch();
    }
    if (options.hardware.memory_limit != before.hardware.memory_limit) {
        showMemoryLimit();
    }
}

void PlanForm::showBatch() {
    batch_->setValue(static_cast<double>(options_.batch));
}

void PlanForm::showMemoryLimit() {
    memoryLimit_->setValue(static_cast<double>(options_.hardware.memory_limit.value_or(0)) / kGiB);
}

PlanRequest PlanForm::request(const Profile& profile) const {
    PlanRequest request;
    take_options(request, options_);
    request.batch = std::llround(batch_->value());
    request.hardware.memory_limit.reset();
    if (memoryLimit_->value() > 0) {
        request.hardware.memory_limit = std::max<Bytes>(1, std::llround(memoryLimit_->value() * kGiB));
    }
    request.partitions =
        partitions_to_try(parse_ranges(partitions_->text().toStdString(), "partitions"), profile.layers.size());
    request.chunks = chunks_to_try(parse_ranges(chunks_->text().toStdString(), "micro-batches"), request.batch);
    request.algorithm = parse_balance_algorithm(algorithm_->currentText().toStdString());
    request.checkpoints.clear();
    for (const std::string& mode : someTicked(*checkpoints_, "checkpoint mode")) {
        request.checkpoints.push_back(parse_checkpoint(mode));
    }
    someTicked(*schedules_, "schedule");
    request.schedules.clear();
    for (int row = 0; row < schedules_->count(); ++row) {
        if (schedules_->item(row)->checkState() == Qt::Checked) {
            request.schedules.push_back(listed_[static_cast<std::size_t>(row)]);
        }
    }
    const std::vector<DeviceType> catalogue = device_catalogue();
    for (const std::string& name : ticked(*devices_)) {
        request.device_types.push_back(find_device(catalogue, name));
    }
    if (!request.device_types.empty()) {
        request.hardware.devices.clear();
        request.hardware.speeds.clear();
        request.hardware.memory_limits.clear();
    }
    const int most = *std::max_element(request.partitions.begin(), request.partitions.end());
    if (described_lanes(request.hardware).value_or(most) < most) {
        request.hardware = with_lanes(std::move(request.hardware), most);
    }
    return request;
}
}  // namespace pipescope
