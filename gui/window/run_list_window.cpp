#include "gui/window/run_list_window.h"

#include "answers/run_list_report.h"
#include "gui/style/arrange.h"
#include "gui/style/file_name.h"
#include "gui/style/number_format.h"
#include "gui/style/work_pool.h"
#include "gui/tables/column_model.h"
#include "gui/tables/filtered_table.h"

#include <QCoreApplication>
#include <QFileInfo>
#include <QItemSelectionModel>
#include <QLabel>
#include <QPointer>
#include <QPushButton>
#include <QTableView>

#include <algorithm>
#include <utility>

namespace pipescope {
class RunListModel : public RowModel<ListedRun> {
public:
    using RowModel::RowModel;
};

namespace {
QStringList filesOf(const ListedRun& run) {
    QStringList files;
    for (const std::filesystem::path& file : run.files) {
        files << textOfPath(file.string());
    }
    return files;
}

std::vector<TableColumn<ListedRun>> columnsOfRuns() {
    using Row = ListedRun;
    const auto stepOf = [](const Row& row) {
        return row.run.why_no_step_times().empty() ? std::optional(row.run.figures->step_mean) : std::nullopt;
    };
    const auto bubbleOf = [](const Row& row) {
        return row.run.lossy() ? std::nullopt : std::optional(row.run.figures->bubble_mean);
    };
    return {
        {translated("Run"), "name", Qt::AlignLeft, [](const Row& row) { return QString::fromStdString(row.run.name); }},
        {translated("Recorded (UTC)"), "recorded", Qt::AlignLeft,
         [](const Row& row) {
             return row.simulated ? translated("simulated") : QString::fromStdString(recorded_text(row));
         }},
        {translated("Model"), "model", Qt::AlignLeft,
         [](const Row& row) { return QString::fromStdString(row.run.run.model); }},
        numberColumn<Row>(
            translated("Steps"), "steps",
            [](const Row& row) { return static_cast<qlonglong>(row.run.figures->steps.size()); },
            [](qlonglong steps) { return QString::number(steps); }),
        optionalColumn<Row>(translated("Step time"), "step_mean_ns", stepOf, formatDuration),
        optionalColumn<Row>(translated("Bubble"), "bubble_mean", bubbleOf, formatShare),
        optionalColumn<Row>(translated("Loss"), "loss", &Row::loss,
                            [](double loss) { return QString::number(loss, 'g', 4); }),
        {translated("Step against the run before"), "step_change", Qt::AlignLeft,
         [](const Row& row) { return QString::fromStdString(change_text(row)); }}};
}

/// The first few, and how many more there are.
QString leftOutText(const std::vector<LeftOutFile>& files, std::size_t most) {
    QStringList lines;
    for (std::size_t k = 0; k < std::min(files.size(), most); ++k) {
        lines << translated("Left out: %1: %2")
                     .arg(QString::fromStdString(files[k].name), QString::fromStdString(files[k].why));
    }
    if (files.size() > most) {
        lines << formatCount(files.size() - most, translated("more file is left out"),
                             translated("more files are left out"));
    }
    return lines.join(QLatin1Char('\n'));
}

/// The tool tip. Tips are taken for markup if they look like it.
QString leftOutTip(const std::vector<LeftOutFile>& files) {
    return QStringLiteral("<p style='white-space:pre-wrap'>%1</p>").arg(leftOutText(files, 30).toHtmlEscaped());
}
}  // namespace

RunListWindow::RunListWindow(const QString& folder, QWidget* parent)
    : QDialog(parent),
      model_(new RunListModel(columnsOfRuns(), this)),
      message_(new QLabel(tr("Reading the runs of %1 …").arg(folder), this)),
      table_(new FilteredTable(*model_, tr("Runs"), tr("No run is in the list yet."), this)),
      leftOut_(new QLabel(this)),
      open_(new QPushButton(tr("&Open"), this)),
      compare_(new QPushButton(tr("&Compare"), this)) {
    setWindowTitle(
        tr("Runs in %1").arg(QFileInfo(folder).fileName().isEmpty() ? folder : QFileInfo(folder).fileName()));
    setAttribute(Qt::WA_DeleteOnClose);
    for (QLabel* label : {message_, leftOut_}) {
        label->setWordWrap(true);
        label->setTextFormat(Qt::PlainText);  // names of files are no markup
        label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    }
    leftOut_->hide();
    named(open_, tr("Open the selected runs"), tr("Opens each selected run in a tab (Return, or a double click)."));
    named(compare_, tr("Compare the two selected runs"),
          tr("Opens the later one of the two selected runs, and shows the earlier one below it."));
    open_->setDefault(true);
    table_->table().setSelectionMode(QAbstractItemView::ExtendedSelection);
    table_->keepNamesBesideFigures();
    arrange(
        new QVBoxLayout(this), {8, 8, 8, 8}, 6,
        {message_, {table_, 1}, leftOut_, arrange(new QHBoxLayout, {0, 0, 0, 0}, 6, {{nullptr, 1}, compare_, open_})});
    resize(fontMetrics().averageCharWidth() * 140, fontMetrics().height() * 26);
    connect(open_, &QPushButton::clicked, this, &RunListWindow::askToOpen);
    connect(compare_, &QPushButton::clicked, this, &RunListWindow::askToCompare);
    connect(&table_->table(), &QTableView::doubleClicked, this, &RunListWindow::askToOpen);
    connect(table_->table().selectionModel(), &QItemSelectionModel::selectionChanged, this,
            &RunListWindow::refreshButtons);
    refreshButtons();
    connect(this, &RunListWindow::progressed, message_, [this, folder](int percent) {
        message_->setText(tr("Reading the runs of %1: %2 % …").arg(folder, QString::number(percent)));
    });
    const auto progress = [of = QPointer(this)](double share) {  // in the worker, which may outlive the window
        const int percent = static_cast<int>(share * 100);
        QMetaObject::invokeMethod(qApp, [of, percent] {
            if (of && !of->isComplete()) {
                Q_EMIT of->progressed(percent);
            }
        });
    };
    runInPool(
        *this,
        [folder, progress] {
            return std::shared_ptr<const RunList>(std::make_shared<RunList>(list_runs(pathOf(folder), progress)));
        },
        [this](const std::shared_ptr<const RunList>& runs) { list(*runs); },
        [this](const QString& error) {
            message_->setText(error);
            complete_ = true;
            Q_EMIT completed();
        });
}

void RunListWindow::list(const RunList& runs) {
    model_->setRows(runs.runs);
    table_->setEmptyText(tr("The folder holds no run with steps to compare."));
    message_->setText(tr("%1, in the order in which they were recorded. Select one to open it, or two to compare them.")
                          .arg(formatCount(runs.runs.size(), tr("run"), tr("runs"))));
    leftOut_->setText(leftOutText(runs.left_out, 4));
    leftOut_->setToolTip(leftOutTip(runs.left_out));
    leftOut_->setVisible(!runs.left_out.empty());
    if (!runs.runs.empty()) {
        table_->table().selectRow(table_->rows().rowCount() - 1);
        table_->table().setFocus();
    }
    complete_ = true;
    Q_EMIT completed();
}

QString RunListWindow::message() const {
    return message_->text();
}

QString RunListWindow::leftOut() const {
    return leftOut_->text();
}

std::vector<int> RunListWindow::selectedRows() const {
    std::vector<int> rows;
    for (const QModelIndex& index : table_->table().selectionModel()->selectedRows()) {
        rows.push_back(table_->rows().mapToSource(index).row());
    }
    std::ranges::sort(rows);
    return rows;
}

std::vector<ListedRun> RunListWindow::selected() const {
    std::vector<ListedRun> runs;
    for (const int row : selectedRows()) {
        if (std::optional<ListedRun> run = model_->rowAt(row)) {
            runs.push_back(*std::move(run));
        }
    }
    return runs;
}

void RunListWindow::refreshButtons() {
    const std::size_t count = selectedRows().size();
    open_->setEnabled(count > 0);
    compare_->setEnabled(count == 2);
}

void RunListWindow::askToOpen() {
    for (const ListedRun& run : selected()) {
        Q_EMIT openAsked(filesOf(run));
    }
}

void RunListWindow::askToCompare() {
    if (const std::vector<ListedRun> runs = selected(); runs.size() == 2) {
        Q_EMIT compareAsked(filesOf(runs.front()), filesOf(runs.back()));
    }
}
}  // namespace pipescope
