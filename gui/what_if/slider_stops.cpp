#include "gui/what_if/slider_stops.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace pipescope {
namespace {
constexpr int kLastSingleStep = 64;
// The E24 series: two-digit numbers at even steps on a logarithmic scale.
constexpr std::array kDecade{1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0,
                             3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6, 6.2, 6.8, 7.5, 8.2, 9.1};

double distance(double a, double b) {
    return a > 0 && b > 0 ? std::fabs(std::log(a / b)) : std::fabs(a - b);
}
}  // namespace

std::vector<double> wholeStops(int first, int last) {
    std::vector<double> stops;
    for (int value = first; value < last;) {
        stops.push_back(value);
        if (value < kLastSingleStep) {
            ++value;
            continue;
        }
        // Sixteen steps per doubling, so that powers of two are included.
        const int doubling = 1 << static_cast<int>(std::log2(value));
        value += doubling / 16;
    }
    stops.push_back(last);
    return stops;
}

std::vector<double> decadeStops(double first, double last) {
    std::vector<double> stops;
    for (double decade = first; decade < last * 0.999; decade *= 10) {
        for (const double step : kDecade) {
            stops.push_back(decade * step);
        }
    }
    stops.push_back(last);
    return stops;
}

std::vector<double> doublingStops(double first, double last) {
    std::vector<double> stops;
    for (double start = first; start < last * 0.999; start *= 2) {
        for (const double step : {1.0, 1.25, 1.5, 1.75}) {
            stops.push_back(start * step);
        }
    }
    stops.push_back(last);
    return stops;
}

std::size_t nearestStop(const std::vector<double>& stops, double value) {
    const auto above = std::lower_bound(stops.begin(), stops.end(), value);
    if (above == stops.begin()) {
        return 0;
    }
    if (above == stops.end()) {
        return stops.size() - 1;
    }
    const auto index = static_cast<std::size_t>(above - stops.begin());
    return distance(stops[index - 1], value) <= distance(stops[index], value) ? index - 1 : index;
}
}  // namespace pipescope
