// Published tables and PipeScope's predictions, as Markdown on stdout.
//
//     paper_tables FOLDER    profiles made by `pipescope profile MODEL --device meta --device-type P40`
//     paper_tables --needs   the required profiles: model, micro-batch sizes and file name, one per line
//
// benchmarks/paper_tables.sh runs all. A row whose profile is missing says so.

#include "analysis/comparison.h"
#include "base/error.h"
#include "benchmarks/paper_tables/explainer.h"
#include "benchmarks/paper_tables/predicted.h"
#include "benchmarks/paper_tables/published.h"
#include "profiler/profile/profile_file.h"
#include "simulator/plan/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

namespace pipescope {
namespace {
constexpr double kGiB = 1024.0 * 1024 * 1024;

class PaperTables {
public:
    explicit PaperTables(std::filesystem::path folder)
        : folder_(std::move(folder)), device_(find_device(device_catalogue(), "P40")) {}

    void print() {
        print_explainer();
        print_speed(amoebanet_speed());
        print_speed(unet_speed());
        print_ablation();
        print_speed(resnet_speed());
        print_sizes(unet_memory(), "sgd", [](const Simulation& each) { return sum_of_peaks(each); });
        print_sizes(amoebanet_parameters(), "rmsprop",
                    [](const Simulation& each) { return sum_of_peaks(each) - sum_of_activations(each); });
        print_sizes(amoebanet_activations(), "rmsprop",
                    [](const Simulation& each) { return sum_of_activations(each); });
        print_summary();
    }

private:
    const CheckedProfile* profile_of(const std::string& model) {
        const auto known = profiles_.find(model);
        if (known != profiles_.end()) {
            return known->second ? &*known->second : nullptr;
        }
        const std::filesystem::path file = folder_ / profile_file_name(model);
        std::optional<CheckedProfile>& profile = profiles_[model];
        if (std::filesystem::exists(file)) {
            profile = load_profile(file);
        }
        return profile ? &*profile : nullptr;
    }

    static double error_of(double predicted, double published) {
        return relative_error(predicted, published).value_or(0);
    }

    void print_explainer() {
        std::string table;
        for (const ExplainedFigure& each : explained_figures()) {
            if (each.table != table) {
                table = each.table;
                fmt::print(
                    "\n## Explainer: {}\n\n| pipeline | published | predicted | error |\n| --- | ---: | ---: | ---: "
                    "|\n",
                    table);
            }
            fmt::print("| {} | {:.4g} | {:.4g} | {:+.1f} % |\n", each.name, each.published, each.predicted,
                       error_of(each.predicted, each.published) * 100);
        }
    }

    static void print_head(const PublishedTable& table, const char* columns, const char* rule) {
        fmt::print("\n## {}\n\n{}\n\n{}\n{}\n", table.title, table.assumptions, columns, rule);
    }

    static void print_missing(const PublishedRow& row, int columns) {
        fmt::print("| {} | {:.4g} |", row.name, row.published);
        for (int k = 2; k < columns; ++k) {
            fmt::print(" no profile |");
        }
        fmt::print("\n");
    }

    void print_speed(const PublishedTable& table) {
        print_head(
            table,
            "| row | published samples/s | predicted | error | published speed-up | predicted | error | bubble |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
        std::optional<double> base;
        bool own_balance = false;
        for (std::size_t k = 0; k < table.rows.size(); ++k) {
            const PublishedRow& row = table.rows[k];
            const CheckedProfile* profile = profile_of(row.model);
            if (profile == nullptr) {
                print_missing(row, 8);
                continue;
            }
            const PredictedRow predicted = predict(*profile, row, device_, "sgd");
            own_balance = own_balance || (predicted.own_balance && row.balance.size() > 1);
            print_speed_row(table, k, predicted.simulation, base);
        }
        if (own_balance) {
            fmt::print("\nOur model has other layers than the published one: balances were searched for again.\n");
        }
    }

    void print_speed_row(const PublishedTable& table, std::size_t k, const Simulation& simulation,
                         std::optional<double>& base) {
        const PublishedRow& row = table.rows[k];
        const double speed = simulation.samples_per_second;
        if (table.baseline == k) {
            base = speed;
        }
        fmt::print("| {} | {:.1f} | {:.1f} | {:+.0f} % |", row.name, row.published, speed,
                   error_of(speed, row.published) * 100);
        if (base) {
            const double published = row.published / table.rows[*table.baseline].published;
            const double predicted = speed / *base;
            fmt::print(" {:.2f} | {:.2f} | {:+.0f} % |", published, predicted, error_of(predicted, published) * 100);
            if (table.baseline != k) {
                errors_[table.title + ", speed-ups"].push_back(std::abs(error_of(predicted, published)));
            }
        } else {
            fmt::print(" | | |");
        }
        fmt::print(" {:.0f} % |\n", simulation.bubble_fraction * 100);
    }

    void print_ablation() {
        const PublishedTable table = unet_ablation();
        print_head(
            table,
            "| row | published samples/s | predicted | error | published speed-up | predicted | error | bubble |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
        const CheckedProfile* profile = profile_of(table.rows[0].model);
        std::optional<double> base;
        for (std::size_t k = 0; k < table.rows.size(); ++k) {
            if (!table.rows[k].not_predicted.empty()) {
                fmt::print("| {} | {:.1f} | {} | | {:.2f} | | | |\n", table.rows[k].name, table.rows[k].published,
                           table.rows[k].not_predicted,
                           table.rows[k].published / table.rows[*table.baseline].published);
                continue;
            }
            if (profile == nullptr) {
                print_missing(table.rows[k], 8);
                continue;
            }
            const CheckedProfile variant = k == table.baseline ? CheckedProfile(without_portals(*profile)) : *profile;
            print_speed_row(table, k, predict(variant, table.rows[k], device_, "sgd").simulation, base);
        }
    }

    void print_sizes(const PublishedTable& table, const std::string& optimizer,
                     const std::function<double(const Simulation&)>& bytes_of) {
        print_head(table, "| row | published GiB | predicted | error | largest lane, GiB | balance |",
                   "| --- | ---: | ---: | ---: | ---: | --- |");
        for (const PublishedRow& row : table.rows) {
            const CheckedProfile* profile = profile_of(row.model);
            if (profile == nullptr) {
                print_missing(row, 6);
                continue;
            }
            const PredictedRow predicted = predict(*profile, row, device_, optimizer);
            const double size = bytes_of(predicted.simulation) / kGiB;
            errors_[table.title].push_back(std::abs(error_of(size, row.published)));
            fmt::print("| {} | {:.2f} | {:.2f} | {:+.1f} % | {:.2f} | {}{} |\n", row.name, row.published, size,
                       error_of(size, row.published) * 100,
                       static_cast<double>(highest_peak(predicted.simulation)) / kGiB,
                       to_string(predicted.simulation.options.balance), predicted.own_balance ? " (ours)" : "");
        }
    }

    void print_summary() const {
        fmt::print(
            "\n## All tables\n\n| what | rows | mean absolute error | largest |\n| --- | ---: | ---: | ---: |\n");
        for (const auto& [what, errors] : errors_) {
            double sum = 0;
            double largest = 0;
            for (const double error : errors) {
                sum += error;
                largest = std::max(largest, error);
            }
            fmt::print("| {} | {} | {:.1f} % | {:.1f} % |\n", what, errors.size(),
                       sum / static_cast<double>(errors.size()) * 100, largest * 100);
        }
    }

    std::filesystem::path folder_;
    DeviceType device_;
    std::map<std::string, std::optional<CheckedProfile>> profiles_;
    std::map<std::string, std::vector<double>> errors_;
};

void print_needs() {
    for (const NeededProfile& each : needed_profiles()) {
        fmt::print("{} {} {}\n", each.model, fmt::join(each.samples, ","), profile_file_name(each.model));
    }
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    if (argc != 2) {
        fmt::print(stderr,
                   "paper_tables: {} arguments; it takes a folder of profiles or --needs; see "
                   "benchmarks/paper_tables.sh\n",
                   argc - 1);
        return 2;
    }
    try {
        if (std::string(argv[1]) == "--needs") {
            pipescope::print_needs();
        } else {
            pipescope::PaperTables(argv[1]).print();
        }
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "paper_tables: {}\n", error.what());
        return 1;
    }
}
