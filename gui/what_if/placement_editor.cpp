#include "gui/what_if/placement_editor.h"

#include "base/error.h"
#include "gui/style/arrange.h"
#include "gui/style/quantity_box.h"
#include "gui/style/undo_keys.h"
#include "schedule/placement.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLineEdit>
#include <QSignalBlocker>

#include <algorithm>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr int kMostCores = 1024;

QStringList wordsOf(const QString& list) {
    QStringList words;
    for (const QString& word : list.split(QLatin1Char(','))) {
        if (const QString bare = word.trimmed(); !bare.isEmpty()) {
            words << bare;
        }
    }
    return words;
}

QString listOf(const std::vector<std::string>& devices) {
    QStringList words;
    for (const std::string& device : devices) {
        words << QString::fromStdString(device);
    }
    return words.join(QLatin1Char(','));
}
}  // namespace

PlacementEditor::PlacementEditor(QFormLayout& form, QWidget& parent)
    : QObject(&parent),
      placement_(named(new QLineEdit(&parent), tr("Lane of each partition"))),
      devices_(named(new QLineEdit(&parent), tr("Device of each lane"))),
      cores_(named(new QuantityBox(tr("Cores"), Quantity::number, &parent), tr("Cores of the host"))),
      linkSharing_(named(new QComboBox(&parent), tr("What copies share"),
                         tr("Copies that share it get equal parts of the bandwidth"))) {
    placement_->setPlaceholderText(tr("each on its own; or 0,1,1,0"));
    placement_->setToolTip(tr("The lane of each partition, in order; partitions of one lane take turns"));
    devices_->setPlaceholderText(tr("all different; or cpu,cpu"));
    devices_->setToolTip(tr("The device of each lane; lanes of one device share it, and copy at no cost"));
    cores_->setRange(0, kMostCores);
    cores_->setSpecialValueText(tr("one for each CPU lane"));
    linkSharing_->addItem(tr("none: one link per pair"), static_cast<int>(LinkSharing::none));
    linkSharing_->addItem(tr("the sender's port"), static_cast<int>(LinkSharing::sender));
    linkSharing_->addItem(tr("both hosts' ports"), static_cast<int>(LinkSharing::host));
    linkSharing_->addItem(tr("one bus"), static_cast<int>(LinkSharing::all));
    linkSharing_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);  // as wide as others
    form.addRow(tr("Placement"), placement_);
    form.addRow(tr("Devices"), devices_);
    form.addRow(tr("Cores"), cores_);
    form.addRow(tr("Shared link"), linkSharing_);
    new UndoKeys(*placement_, *placement_);
    new UndoKeys(*devices_, *devices_);
    connect(placement_, &QLineEdit::editingFinished, this, &PlacementEditor::takePlacement);
    connect(devices_, &QLineEdit::editingFinished, this, &PlacementEditor::takeDevices);
    connect(cores_, &QuantityBox::refused, this, &PlacementEditor::failed);
    connect(cores_, &QuantityBox::valueChanged, this, [this](double cores) {
        Q_EMIT changed(tr("cores"),
                       [cores](Scenario& next) { next.options.hardware.host_cores = static_cast<int>(cores); });
    });
    connect(linkSharing_, &QComboBox::activated, this, [this](int index) {
        const auto sharing = static_cast<LinkSharing>(linkSharing_->itemData(index).toInt());
        Q_EMIT changed(tr("what copies share"),
                       [sharing](Scenario& next) { next.options.hardware.link.sharing = sharing; });
    });
}

void PlacementEditor::setOptions(const PipelineOptions& options) {
    placement_->setText(QString::fromStdString(placement_text(options.placement)));
    devices_->setText(listOf(options.hardware.devices));
    const QSignalBlocker blocker(cores_);
    cores_->setValue(options.hardware.host_cores);
    const bool anyOnHost = std::ranges::find(options.hardware.devices, kHost) != options.hardware.devices.end();
    cores_->setEnabled(anyOnHost);
    cores_->setSpecialValueText(anyOnHost ? tr("one for each CPU lane") : tr("no lane is on cpu"));
    cores_->setToolTip(anyOnHost ? tr("Cores that lanes on the device cpu share")
                                 : tr("No lane is on the device cpu, and only such lanes share cores; name cpu in "
                                      "Devices, such as cpu,cpu"));
    linkSharing_->setCurrentIndex(linkSharing_->findData(static_cast<int>(options.hardware.link.sharing)));
}

void PlacementEditor::takePlacement() {
    const std::string text = wordsOf(placement_->text()).join(QLatin1Char(',')).toStdString();
    std::vector<LaneId> lanes;
    try {
        lanes = text.empty() ? std::vector<LaneId>{} : parse_placement(text, "the placement");
    } catch (const Error& error) {
        Q_EMIT failed(QString::fromUtf8(error.what()));
        return;
    }
    placement_->setModified(false);
    Q_EMIT changed(tr("lanes of partitions"), [lanes](Scenario& next) { next = withPlacement(next, lanes); });
}

void PlacementEditor::takeDevices() {
    const QString text = devices_->text().trimmed();
    if (!text.isEmpty() && wordsOf(text).size() != text.count(QLatin1Char(',')) + 1) {
        Q_EMIT failed(
            tr("the devices are '%1', which lacks one beside a comma; name one for each lane, or none for all "
               "different")
                .arg(text));
        return;
    }
    std::vector<std::string> devices;
    for (const QString& word : wordsOf(devices_->text())) {
        devices.push_back(word.toStdString());
    }
    Q_EMIT changed(tr("devices of lanes"), [this, devices](Scenario& next) {
        next.options.hardware.devices = devices;
        check_hardware(next.options.hardware, num_lanes(next.options));
        devices_->setModified(false);
    });
}
}  // namespace pipescope
