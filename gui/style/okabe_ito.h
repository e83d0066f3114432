#pragma once

#include <QColor>

#include <array>

namespace pipescope {
/// The palette of Okabe and Ito (2008), distinguishable in every common form of colour blindness. All category colours
/// are from it or tints of it. Categories also differ in pattern or shape.
namespace okabe_ito {
inline constexpr QRgb kBlack = 0xFF000000;
inline constexpr QRgb kOrange = 0xFFE69F00;
inline constexpr QRgb kSky = 0xFF56B4E9;
inline constexpr QRgb kGreen = 0xFF009E73;
inline constexpr QRgb kYellow = 0xFFF0E442;
inline constexpr QRgb kBlue = 0xFF0072B2;
inline constexpr QRgb kVermillion = 0xFFD55E00;
inline constexpr QRgb kPurple = 0xFFCC79A7;
inline constexpr std::array kAll{kBlack, kOrange, kSky, kGreen, kYellow, kBlue, kVermillion, kPurple};

/// Mixes the colour with this share of white, 0 to 1.
constexpr QRgb tint(QRgb color, double white) {
    const auto channel = [white](int value) { return static_cast<int>(value + (255 - value) * white); };
    return qRgb(channel(qRed(color)), channel(qGreen(color)), channel(qBlue(color)));
}
inline constexpr QRgb kLightGreen = tint(kGreen, 0.5);
inline constexpr QRgb kLightSky = tint(kSky, 0.4);
inline constexpr QRgb kLightOrange = tint(kOrange, 0.45);
inline constexpr QRgb kGrey = tint(kBlack, 0.6);
}  // namespace okabe_ito
}  // namespace pipescope
