#pragma once

#include "cluster/language_model.h"

#include <cstdint>
#include <set>
#include <vector>

// The numbers of devices that a plan tries.

namespace pipescope {
/// The divisors of a number up to `most`, ascending.
std::vector<int> divisors(std::int64_t number, std::int64_t most);
/// Powers of two, 5/4 and 3/2 of them, within the limits, and both limits. Also 7/4 of them if the size of the model or
/// of the batch has that factor.
std::set<int> device_numbers(int least, int most, bool with_sevenths);
/// The divisors of `most` that may split a sample's tokens, with at least 2048 tokens each. With fewer tokens there is
/// too little work: Megatron-Core advises context parallelism for samples of 8192 and more.
std::vector<int> contexts_of(const LanguageModel& model, int most);
}  // namespace pipescope
