// Published figures of pipelines beside what the simulator predicts, as Markdown on stdout.
//
//     published FOLDER         the repository's folder, which holds the published rows and the cluster files
//     published FOLDER runs [PROGRAM]
//                              only the runs of programs, each as a line of a CSV, and their errors by set; with
//                              PROGRAM instead of their own, or without any for none
//     published FOLDER ranges  how many of these runs lie in their intervals, and the "published" of each program
//     published FOLDER halves  errors of runs with a factor from the other half of the sources
//
// benchmarks/published.sh writes docs/evidence/published-pipelines.md with it.

#include "base/error.h"
#include "benchmarks/published/published_pipelines.h"
#include "benchmarks/published/published_ranges.h"
#include "benchmarks/published/published_runs.h"
#include "benchmarks/published/run_errors.h"
#include "benchmarks/published/zero_bubble.h"

#include "simulator/memory/memory_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
namespace {
constexpr const char* kHead = R"(# Published pipelines, predicted

Steps, speed-ups, memories and bubbles of published training runs, next to predictions from their configurations alone.
`benchmarks/published.sh` writes this page, and `published_test` checks it. The published rows are in `benchmarks/published/`, the
machines in `examples/clusters/`.

**What is calibrated**

- One constant of the A100: `matmul_efficiency` 0.8 of the [device catalogue](../device-catalogue.md), a round number that was
  chosen before any row was compared.
- One constant of the GH200: {:.2f} GB that a process holds besides its tensors. It comes from one row of Sailor's that no
  table below contains (OPT-350/N1/plan_config_N1_D1_M4_G32).

**What is assumed**

- As in [`simulate gpt:.. --cluster`](../cli/simulate.md#on-a-cluster), layers of GPT models are estimated by operator
  ([device-catalogue.md](../device-catalogue.md)), and pipelines are simulated. Rings sum gradients at a lane's end. Each
  device has its share of its node's ports, at 0.8 of their rate.
- Lanes of Megatron-LM wait for their sends, lanes of DeepSpeed handle one message after the other, and lanes of zero bubble
  continue to compute. The rules for DeepSpeed and zero bubble were chosen after a comparison. So was the end of zero
  bubble's step: the sum of the tied embeddings' gradients, and the update. With lanes that wait for sends and without that
  end, ZB-1p is 0.9 % off in the mean, ZB-2p 4.0 %.
- Rows were entered by hand. Configurations of the weak scaling are from its script. The steps of both scaling tables agree
  to 0.5 % with the rates and utilizations published beside them, as `published_test` checks.
- Error is predicted / measured - 1.

**What is left out**

- Sailor's rows of one lane, which have no pipeline; one of them gives the constant above.
- Zero bubble's columns 1F1B-I and ZB-V: the times of stages are published for one partition per lane.
- vTrain's file of one node: its times are linear in the number of layers to 1e-5, so they are not measurements.
- Mixtures of experts on devices or in formats for which the catalogue has no rate.

**What is not explained**

- Some rows of vTrain with two or four tensor-parallel devices come out 10 to 38 % too short, and other rows of the same
  layout within 2 %: p8 d16 t4 of 39.1 B took 16.1 s with b2, 17.6 s with b3, and 16.1 s with b6. Among the worst rows of
  several lanes, p16 d16 t2 with b2, b3 and b6 took 8.9, 9.8 and 6.4 s more than predicted. This is 0.14, 0.21 and 0.21 s for
  each micro-batch and lane that the step passes, although b6 has twice the work and twice the bytes of b3. So neither a rate
  nor a bandwidth explains these rows, and 175 B on p32 d8 t2 comes out within 6 %. Memory is far from full. The source gives
  no other facts about these runs.
- Three rows of vTrain of 3.6 B on one lane: p1 d16 t4 b2, p1 d8 t8 b2 and p1 d8 t8 b64 took 1.5, 1.5 and 2.1 times as long as
  predicted, and 1.3 to 2 times as long as the rows with the next sizes of micro-batches, whose errors are 2 to 13 %.
- Steps of the largest models with selective recompute come out up to 9 % too long. Their predicted memory of parameters
  includes the embedding, which the source leaves out: 2.2 GiB for 530 B, 2.7 GiB for 1 T.
- Sailor's row with one micro-batch measures 0.076 s more than its layers, copies and update take. Its program
  (megatron/training.py) waits for the device before and after each step, and takes the mean of seven steps on rank 0, after
  three that do not count. None of its work once a step takes so long: summing gradients without replicas took 0.011 s by its
  own clock. The model OPT has no such difference: its row with one micro-batch on one lane took 0.002 s more than a
  micro-batch of its row with 32. A constant time per step would make five of the other rows worse.
- The memory of Sailor's row with four lanes and micro-batches of four is a fifth less than predicted. By the layers' own
  bytes the second lane keeps 26.4 GB of activations: three micro-batches of nine blocks, 244 MB per block and sample. With
  parameters and the process's other memory, a run of that layout takes 33 GB or more, but 28.5 GB were measured. The third
  lane, which keeps two micro-batches, would take 27.1 GB. Sailor's script (process_results.py) takes the highest of the last
  lines of all ranks' logs, and skips ranks whose last line is cut off. It is not known whether that happened.
- Sailor's program reads nvidia-smi, so its figures include what the allocator reserves; the prediction counts tensors. With
  simulated reserved bytes, whose blocks are made up from the layers' bytes, the mean error is 7.0 %.
- Because of the row with one micro-batch and the row with four lanes, Sailor's means are 5.7 % (time) and 4.9 % (memory);
  the other nine rows are 2.2 % and 2.5 % off. No known cause would also apply to other rows, so nothing was set for these
  two.
- Sailor's engine (deepspeed/pipe_engine.py) sends a quarter of an activation from each of the four tensor-parallel ranks,
  gathers it after the link, and reads its size on the host for each message, so the host cannot launch ahead. PipeScope's
  model sends whole activations and has no waits for the host. With quarters and their gathering, but without the waits, the
  mean is 8.3 %, and all rows but one are too short. The length of the waits is not published, so the figures above contain
  both errors.
- Sailor's profile has the update of the profiled model, which has two blocks (profile_all.py), so the update is scaled by
  parameters. Without this scaling, the mean was 5.2 %.
- For mixtures of experts on H100 nothing was set or chosen, and this set has the largest errors. Fully sharded data
  parallelism comes out a third too slow with gradients summed in 4 bytes, and 5 % too slow with 2; the source does not say
  which. The row of 4096 tokens on four tensor-parallel devices runs at little more than half of the rate of the same layout
  with 16384 tokens. It has a quarter of the work in the same number of kernels. A host that launches kernels too slowly
  would explain this, but the source does not say so, and PipeScope does not simulate it. With long sequences, these runs
  repeat the experts' forward. The predictions lack it, but its share shrinks as attention grows.
)";

constexpr const char* kBubblesHead = R"(
## Bubbles of zero-bubble schedules

Zero Bubble Pipeline Parallelism (arXiv 2401.10241), tables 5 and 9: GPT models on A100-SXM-80G, one stage per GPU. A stage's
forward, gradients of inputs, gradients of weights and copy take the published times, and copies overlap. A bubble is (cost -
work) / cost, where cost is the longest time from the first to the last task of a lane, as in the paper, which moves the
optimizer's step. The synchronous step of `simulate` is longer by the ramp.
)";

constexpr const char* kMemoryHead = R"(
## Memory and idle time of named schedules

F = I = W, free copies, 24 micro-batches on 8 lanes, no recompute. Memory is the largest lane's, in activations of one micro-batch
in all of the lane's layers, which stay until the end of W. Idle is the step without the work, in forwards of all of a lane's
layers. Published: 1F1B and zero bubble as above (sections 3 and 6); V-Half and V-Min, Pipeline Parallelism with Controllable
Memory (arXiv 2405.15362), section 3, asymptotically; interleaved, Megatron-LM (arXiv 2104.04473), section 2.2; DualPipe, DeepSeek's repository of that name, of one of a
lane's two partitions.

| schedule | published memory | simulated | step's idle time | lane's own span |
| --- | ---: | ---: | ---: | ---: |
)";

void print_bubbles(const std::filesystem::path& folder) {
    fmt::print(
        "{}\n| model | lanes | micro-batches | 1F1B, published | simulated | ZB-H1, published | simulated | ZB-H2, "
        "published | simulated |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        kBubblesHead);
    for (const ZeroBubbleRow& row : zero_bubble_rows(folder)) {
        const auto bubble = [&](const Schedule& schedule) { return bubble_of_lanes(simulated_row(row, schedule)); };
        fmt::print("| {} | {} | {} | {:.4f} | {:.4f} | {:.4f} | {:.4f} | {:.4f} | {:.4f} |\n", row.model, row.lanes,
                   row.micro_batches, row.one_f_one_b, bubble(Schedule::one_f_one_b), row.zero_bubble_h1,
                   bubble(Schedule::zero_bubble_h1), row.zero_bubble_2p, bubble(Schedule::zero_bubble_2p));
    }
}

void print_memories() {
    const ZeroBubbleRow uniform{"uniform", 8, 24, 1, 1, 1, 0};
    const std::map<std::string, std::string> published{
        {"gpipe", "m = 24"},           {"1f1b", "p = 8"},           {"interleaved", "p + (p - 1) / 2 = 11.5"},
        {"looped-bfs", "m = 24"},      {"zero-bubble-h1", "p = 8"}, {"zero-bubble-2p", "2p - 1 = 15"},
        {"zero-bubble-v", "p = 8"},    {"dualpipe", "p + 1 = 9"},   {"v-half", "about p / 2 = 4"},
        {"v-min", "about p / 3 = 2.7"}};
    fmt::print("{}", kMemoryHead);
    for (const Schedule& schedule : all_schedules()) {
        if (!is_synchronous(schedule) || runs_one_lane_at_a_time(schedule)) {
            continue;
        }
        const Simulation simulation = simulated_row(uniform, schedule);
        const double work = static_cast<double>(uniform.micro_batches) * 3;
        const double idle = static_cast<double>(simulation.step_time.count()) / 1e6 - work;
        const double bubble = bubble_of_lanes(simulation);
        const auto own = published.find(to_string(schedule));
        fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} |\n", to_string(schedule),
                   own == published.end() ? "" : own->second, most_activations(simulation), idle,
                   work * bubble / (1 - bubble));
    }
}

void print_summary(const std::vector<PublishedSet>& sets) {
    fmt::print("\n## All sets\n\n| set | rows | mean absolute error | largest |\n| --- | ---: | ---: | ---: |\n");
    for (const PublishedSet& set : sets) {
        fmt::print("| {} | {} | {:.1f} % | {:.1f} % |\n", set.title, set.figures.size(), set.mean_error() * 100,
                   set.largest_error() * 100);
    }
}

void print_set(const PublishedSet& set) {
    fmt::print("\n## {}\n\n{}\n\n", set.title, set.about);
    const std::string unit = set.unit.empty() ? "" : ", " + set.unit;
    fmt::print("| row | measured{0} | predicted{0} | error |\n| --- | ---: | ---: | ---: |\n", unit);
    for (const PublishedFigure& each : set.figures) {
        fmt::print("| {} | {:.4g} | {:.4g} | {:+.1f} % |\n", each.row, each.measured, each.predicted,
                   each.error() * 100);
    }
}

double gib_of(const LayoutStep& step) {
    constexpr double kGiB = 1024.0 * 1024 * 1024;
    return static_cast<double>(step.layout.how().shown_bytes(highest_peak(step.simulation))) / kGiB;
}

std::string without_commas(std::string text) {
    std::ranges::replace(text, ',', ';');
    return text;
}

/// `plain`: the same sets without programs.
void print_errors(const std::vector<RunErrors>& sets, const std::vector<RunErrors>& plain) {
    fmt::print(
        "| set | runs | predicted | mean error without a program | mean absolute | mean error with its program | mean "
        "absolute | worst run | its error |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n");
    for (std::size_t k = 0; k < sets.size(); ++k) {
        const RunErrors& set = sets[k];
        if (set.worst == nullptr) {
            fmt::print("| {} | {} | 0 | | | | | | |\n", set.set, set.rows);
            continue;
        }
        fmt::print("| {} | {} | {} | {:+.1f} % | {:.1f} % | {:+.1f} % | {:.1f} % | {}: {} | {:+.1f} % |\n", set.set,
                   set.rows, set.predicted, plain[k].signed_mean * 100, plain[k].absolute_mean * 100,
                   set.signed_mean * 100, set.absolute_mean * 100, set.worst->run, set.worst->about,
                   set.worst->error() * 100);
    }
}

constexpr const char* kRunsHead = R"(
## Runs of programs

399 published runs of seven programs. 390 are predicted, each from its configuration alone: `published FOLDER runs` prints them, and
`benchmarks/published/runs.csv` has their facts and sources. A run's [program](../program-format.md) gives the options that its
row does not; the columns without a program have every kernel at its usual rate.

**Settled after a comparison**: values that `cluster/programs.json` marks so, all of them round numbers that hold for every run
of a program; `short_matmul_efficiency` of the devices; and the least half of an interval with experts. The causes that are listed
below as what sources say were looked for after the errors of earlier predictions had been seen, above all those of experts.

**Left out**: Nemotron 3 Nano, whose attention, state-space layers and experts follow each other in an order that no `gpt:` model
has; one run of DeepSeek-V3 whose source spreads experts over more devices than its lanes have; and runs that train few of the
parameters. Where a row has no size of micro-batches, it is one sample, or in torchtitan's pipelines that of as many micro-batches
as lanes; where rows have no recompute, it is the default of MaxText, everything, or of torchtitan, selective.

**Latent attention, windows, biases and multi-token prediction** of DeepSeek-V2, DeepSeek-V3 and GPT-OSS are in the column
`model_keys`, from their configurations. DeepSeek-V3 predicts further tokens in runs whose operations per token say so.

**What sources say about programs**

- Megatron-LM's scripts for SimuMax give neither `--overlap-grad-reduce` nor `--overlap-param-gather`, so sums and gathers wait.
- NeMo's runs of Grok-1 do not set `expert_tensor_parallel_size`, so each expert is split over the four tensor-parallel devices,
  and tokens travel over four nodes. Megatron-Bridge's recipes set it to 1.
- Transformer Engine's grouped layers launch the products of each expert one by one, after the host has waited for the number of
  tokens of each, and in float8 also casts, transposes and scales. With 16 experts on a device and one sample, the host limits them.
- Rows in rowwise float8, MX or NVFP4 run in the [dtype](../program-format.md#short-dtypes) of that scaling, and other rows in float8
  with one scale per tensor. Its costs come from torchao's own table and from Transformer Engine's kernels, not from these rows.
- The losses of SimuMax's runs are fused. Until its source was read again, `megatron-core` took twice the bytes per logit for them,
  from the unfused loss's share of the memory rate; with 20 bytes the set's error is 4.5 % instead of 4.2 %.
- GPT-OSS has biases in its experts, which Megatron-Core adds expert by expert.
- torchtitan's pipelines have as many micro-batches as lanes unless told otherwise, and FSDP2 gathers their parameters once per
  step. Both were looked up after a run with one sample per micro-batch and ZeRO 3 had come out 27 % too slow, with a third of
  its memory. The published ratio of its interleaved run to 1F1B, 1.28, is that of the bubbles of eight micro-batches.
- torchtitan's H100 are limited to 500 W. llm-foundry's are not, so FSDP's products take A100's share on H100 too.

**Why the worst runs are off**

- Models with experts: B200 with DeepSeek-V3 (32 experts on a device) and one run of GB300 were quicker than the host's model of
  launches; some runs on B200 and B300 took 1.4 times as long as others of the same layout in the next release.
- 70 B on GB300 in float8 with p4 and without interleaving (bridge-167) was as quick as its neighbours with five partitions per
  lane: the table probably lacks the interleaving.
- llm-foundry: three runs (30 B at 8,192 tokens, 760 M at 512 and 1,024, 1 B on 32 devices) took 1.2 to 1.3 times as long as
  their neighbours; the source does not say why. 13 B on eight cards of 40 GB fills their memory.
- BigScience: heads whose width is no multiple of eight run without tensor units. One run (78 layers, one sample per micro-batch)
  took 1.4 times as long as its neighbours.
- torchtitan: the source calls its rowwise float8 with tensor parallelism slow by a fault. Runs of 128 K tokens with context
  parallelism took 1.4 times as long as predicted.

)";

/// The intervals' table, and with `values` what the programs' files should say.
void print_ranges(const std::vector<RangeCheck>& checks, bool values) {
    fmt::print(
        "| program | device | experts | runs | measured / predicted | in their interval | with their source left out "
        "|\n"
        "| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
    RangeCheck all;
    for (const RangeCheck& check : checks) {
        const PublishedErrors& errors = check.errors;
        fmt::print("| {} | {} | {} | {} | {:.2f} to {:.2f} | {} | {} |\n", check.program, errors.device,
                   errors.experts ? "yes" : "no", errors.runs, errors.low, errors.high, check.inside,
                   check.inside_left_out);
        all.errors.runs += errors.runs;
        all.inside += check.inside;
        all.inside_left_out += check.inside_left_out;
    }
    const auto percent = [&](int inside) { return 100.0 * inside / all.errors.runs; };
    fmt::print("| all | | | {} | | {} ({:.0f} %) | {} ({:.0f} %) |\n", all.errors.runs, all.inside, percent(all.inside),
               all.inside_left_out, percent(all.inside_left_out));
    for (const RangeCheck& check : checks) {
        const PublishedErrors& errors = check.errors;
        if (values) {
            fmt::print("{}: {{\"device\": \"{}\",{} \"runs\": {}, \"low\": {:.2f}, \"high\": {:.2f}}}\n", check.program,
                       errors.device, errors.experts ? " \"experts\": true," : "", errors.runs, errors.low,
                       errors.high);
        }
    }
}

constexpr const char* kHalvesHead = R"(
**Out of sample**: the mean absolute error of a program's runs if their predictions are multiplied by one factor, which is fitted
to the runs of other sources: sources (releases of a repository) are dealt out to two halves by name, and each half takes the
factor of the other. Programs and devices with one source are left out. `published FOLDER halves` prints this table alone.

)";

void print_halves(const std::vector<HalfCheck>& checks) {
    fmt::print(
        "| program | device | experts | sources | runs | mean absolute | with the other half's factor |\n"
        "| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
    HalfCheck all;
    for (const HalfCheck& check : checks) {
        fmt::print("| {} | {} | {} | {} | {} | {:.1f} % | {:.1f} % |\n", check.program, check.group.device,
                   check.group.experts ? "yes" : "no", check.sources, check.group.runs, check.as_is * 100,
                   check.from_others * 100);
        all.sources += check.sources;
        all.group.runs += check.group.runs;
        all.as_is += check.as_is * check.group.runs;
        all.from_others += check.from_others * check.group.runs;
    }
    const double runs = std::max(1, all.group.runs);
    fmt::print("| all | | | {} | {} | {:.1f} % | {:.1f} % |\n", all.sources, all.group.runs, all.as_is / runs * 100,
               all.from_others / runs * 100);
}

constexpr const char* kIntervalsHead = R"(
**Intervals**: how many runs lie in the 90 % interval of their prediction, with the ranges of `cluster/programs.json`; and with the
ranges that all runs except those of their own source (a release of a repository) would give.

)";

/// Of the runs with a measured memory.
void print_memory(const std::vector<PublishedRun>& runs) {
    struct Errors {
        int runs = 0;
        double signed_sum = 0, absolute_sum = 0;
    };
    std::map<std::string, Errors> sets;
    for (const PublishedRun& run : runs) {
        if (run.step && run.gib) {
            const double error = gib_of(*run.step) / *run.gib - 1;
            Errors& set = sets[run.set];
            ++set.runs;
            set.signed_sum += error;
            set.absolute_sum += std::abs(error);
        }
    }
    fmt::print(
        "\n**Memory** of the runs whose sources give it:\n\n| set | runs | mean error | mean absolute |\n"
        "| --- | ---: | ---: | ---: |\n");
    for (const auto& [name, set] : sets) {
        fmt::print("| {} | {} | {:+.1f} % | {:.1f} % |\n", name, set.runs, set.signed_sum / set.runs * 100,
                   set.absolute_sum / set.runs * 100);
    }
}

void print_memory_and_intervals(const std::vector<PublishedRun>& runs) {
    print_memory(runs);
    fmt::print("{}", kIntervalsHead);
    print_ranges(range_checks(runs), false);
    fmt::print("{}", kHalvesHead);
    print_halves(half_checks(runs));
}

constexpr const char* kPairsHead = R"(
**Two layouts of one model** in one program, source and dtype on one type of device, whose errors are partly the same. Nine of ten
pairs of errors differ by at most the spread; right are pairs whose order is that of the predictions, by samples per second and
device.

| program | experts | pairs | spread | right |
| --- | --- | ---: | ---: | ---: |
)";

constexpr const char* kShownHead = R"(
**Memory that devices showed**, as a share of its prediction: nine of ten runs of those that published it, predicted with their
program, and without one.

| program | runs | with it, from | to | without, from | to |
| --- | ---: | ---: | ---: | ---: | ---: |
)";

/// `plain`: the same runs without programs.
void print_pairs_and_memory(const std::vector<PublishedRun>& runs, const std::vector<PublishedRun>& plain) {
    fmt::print("{}", kPairsHead);
    for (const LayoutPairs& each : layout_pairs(runs)) {
        fmt::print("| {} | {} | {} | {:.1f} % | {:.1f} % |\n", each.program, each.experts ? "yes" : "no", each.pairs,
                   each.spread * 100, 100.0 * each.right / each.pairs);
    }
    fmt::print("{}", kShownHead);
    const std::vector<MemoryErrors> without = memory_errors(plain);
    const std::vector<MemoryErrors> with = memory_errors(runs);
    for (std::size_t k = 0; k < with.size(); ++k) {
        fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", with[k].program, with[k].runs, with[k].low,
                   with[k].high, without[k].low, without[k].high);
    }
}

void print_runs_section(const std::filesystem::path& folder) {
    const std::vector<PublishedRun> plain = published_runs(folder, "");
    const std::vector<PublishedRun> runs = published_runs(folder);
    fmt::print("{}", kRunsHead);
    print_errors(errors_by_set(runs), errors_by_set(plain));
    print_memory_and_intervals(runs);
    print_pairs_and_memory(runs, plain);
}

void print_runs(const std::filesystem::path& folder, const std::string& programs) {
    const std::vector<PublishedRun> runs = published_runs(folder, programs);
    fmt::print("run,set,measured_s,predicted_s,error_percent,measured_gib,predicted_gib,about\n");
    for (const PublishedRun& run : runs) {
        const std::string error = run.step && run.ran() ? fmt::format("{:.1f}", run.error() * 100) : "";
        fmt::print("{},{},{:.4g},{},{},{},{},{}\n", run.run, run.set, run.seconds,
                   run.step ? fmt::format("{:.4g}", run.step->step_ns() / 1e9) : "", error,
                   run.gib ? fmt::format("{:.4g}", *run.gib) : "",
                   run.step ? fmt::format("{:.4g}", gib_of(*run.step)) : "",
                   without_commas(run.about + (run.left_out.empty() ? "" : "; left out: " + run.left_out)));
    }
    fmt::print("\n");
    print_errors(errors_by_set(runs), errors_by_set(runs));
}

void print_page(const std::filesystem::path& folder) {
    std::vector<PublishedSet> sets;
    const auto add = [&](const std::vector<PublishedSet>& more) { sets.insert(sets.end(), more.begin(), more.end()); };
    sets.push_back(megatron_weak_scaling(folder));
    add(selective_recompute(folder));
    sets.push_back(strong_scaling(folder));
    sets.push_back(vtrain(folder));
    sets.push_back(mixtures_of_experts(folder));
    add(zero_bubble_speed_ups(folder));
    add(sailor(folder));
    fmt::print(fmt::runtime(kHead), kSailorContextBytes / 1e9);
    print_summary(sets);
    print_runs_section(folder);
    for (const PublishedSet& set : sets) {
        print_set(set);
    }
    print_bubbles(folder);
    print_memories();
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    const bool only_runs = (argc == 3 || argc == 4) && std::string_view(argv[2]) == "runs";
    const bool only_ranges = argc == 3 && std::string_view(argv[2]) == "ranges";
    const bool only_halves = argc == 3 && std::string_view(argv[2]) == "halves";
    if (argc != 2 && !only_runs && !only_ranges && !only_halves) {
        fmt::print(stderr,
                   "published: {} arguments; it takes the repository's folder, and 'runs' for the runs alone, 'ranges' "
                   "for their intervals or 'halves' for errors out of sample; see benchmarks/published.sh\n",
                   argc - 1);
        return 2;
    }
    try {
        const std::string programs = argc < 4 ? "own" : std::string_view(argv[3]) == "none" ? "" : argv[3];
        if (only_ranges) {
            pipescope::print_ranges(pipescope::range_checks(pipescope::published_runs(argv[1])), true);
        } else if (only_halves) {
            pipescope::print_halves(pipescope::half_checks(pipescope::published_runs(argv[1])));
        } else {
            only_runs ? pipescope::print_runs(argv[1], programs) : pipescope::print_page(argv[1]);
        }
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "published: {}\n", error.what());
        return 1;
    }
}
