#include "profiler/layers/operator_chains.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// A record of operators on values of given bytes, which each operator reads and writes whole.
class Record {
public:
    std::size_t value(double bytes) {
        record.values.push_back({bytes});
        return record.values.size() - 1;
    }
    /// Returns what an operator computes of others.
    std::size_t computes(const std::vector<std::size_t>& reads, double bytes, bool fuses = true) {
        OperatorRecord::Operator op{.part = part, .fuses = fuses, .flops = fuses ? 0.0 : 1.0};
        for (const std::size_t each : reads) {
            op.reads.push_back({each, record.values[each].bytes});
        }
        const std::size_t written = value(bytes);
        op.writes.push_back({written, bytes});
        record.operators.push_back(op);
        return written;
    }
    std::size_t product(std::size_t read, double bytes) { return computes({read}, bytes, false); }
    void keep(std::size_t value) { record.values[value].is_result = true; }
    /// Bytes of each chain of a part.
    std::vector<double> bytes(std::size_t of = 0) const {
        std::vector<double> found;
        const std::vector<Operators> chains = fused_chains(record, part + 1);
        for (const DeviceWork& each : chains[of]) {
            found.insert(found.end(), static_cast<std::size_t>(each.kernels), each.bytes_moved / each.kernels);
        }
        return found;
    }

    OperatorRecord record;
    std::size_t part = 0;
};

TEST(OperatorChains, AChainReadsWhatEntersAndWritesWhatLeaves) {
    Record record;
    const std::size_t input = record.value(100);
    const std::size_t square = record.computes({input}, 200);
    const std::size_t mean = record.computes({square}, 2);
    const std::size_t scaled = record.computes({input, mean}, 100);
    record.product(scaled, 50);
    EXPECT_EQ(record.bytes(), (std::vector<double>{100 + 100})) << "the input once, and the product's input";
}

TEST(OperatorChains, AProductEndsAChain) {
    Record record;
    const std::size_t input = record.value(100);
    const std::size_t before = record.computes({input}, 100);
    const std::size_t product = record.product(before, 40);
    // The residual addition reads what the first chain wrote, behind the product.
    record.keep(record.computes({before, product}, 100));
    EXPECT_EQ(record.bytes(), (std::vector<double>{100 + 100, 100 + 40 + 100}));
}

TEST(OperatorChains, OperatorsOnOtherValuesAreOtherChains) {
    Record record;
    record.keep(record.computes({record.value(10)}, 10));
    record.keep(record.computes({record.value(30)}, 30));
    EXPECT_EQ(record.bytes(), (std::vector<double>{20, 60}));
}

TEST(OperatorChains, ABackwardComputesAgainWhatIsCheaperThanWriting) {
    Record record;
    const std::size_t input = record.value(100);
    const std::size_t wide = record.computes({input}, 200);  // as a conversion to float32
    record.product(record.computes({wide}, 100), 10);
    record.part = 1;
    const std::size_t gradient = record.value(100);
    record.keep(record.computes({gradient, wide}, 100));
    EXPECT_EQ(record.bytes(0), (std::vector<double>{100 + 100})) << "the wide one is not written";
    EXPECT_EQ(record.bytes(1), (std::vector<double>{100 + 100 + 100})) << "gradient, input, result";
}

TEST(OperatorChains, AChainWritesSmallValuesThatOthersNeed) {
    Record record;
    const std::size_t input = record.value(1000);
    const std::size_t sum = record.computes({input}, 1);
    record.part = 1;
    record.keep(record.computes({record.value(10), sum}, 10));
    EXPECT_EQ(record.bytes(0), (std::vector<double>{1000 + 1}));
    EXPECT_EQ(record.bytes(1), (std::vector<double>{10 + 1 + 10}));
}

TEST(OperatorChains, PartsOfAValueAreReadOnce) {
    Record record;
    const std::size_t input = record.value(100);
    OperatorRecord::Operator halves{.reads = {{input, 50}, {input, 50}, {input, 100}}};
    record.record.operators.push_back(halves);
    EXPECT_EQ(record.bytes(), (std::vector<double>{100}));
}

TEST(OperatorChains, EqualOperatorsAreOneEntry) {
    const DeviceWork one{8, 4, 1, ProductShape{1, 1, 2, 2}};
    const DeviceWork other{8, 4, 1, ProductShape{1, 2, 2, 1}};
    const Operators found = merged({one, other, one});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0], (DeviceWork{16, 8, 2, ProductShape{1, 1, 2, 2}}));
    EXPECT_EQ(found[1], other);
}
}  // namespace
}  // namespace pipescope
