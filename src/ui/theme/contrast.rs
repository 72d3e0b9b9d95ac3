//! The contrast of two colors (WCAG 2.1, success criterion 1.4.3).

use ratatui::style::Color;

/// The contrast ratio, from 1 to 21; `None` if a color is defined by the terminal.
pub fn of(ink: Color, ground: Color) -> Option<f64> {
    match (ink, ground) {
        (Color::Rgb(r, g, b), Color::Rgb(red, green, blue)) => Some(ratio([r, g, b], [red, green, blue])),
        _ => None,
    }
}

/// The contrast ratio of two RGB colors.
pub fn ratio(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Whether black text is more readable than white text on a color.
pub fn is_light(ground: Color) -> bool {
    matches!(ground, Color::Rgb(r, g, b) if ratio([r, g, b], [0; 3]) > ratio([r, g, b], [255; 3]))
}

/// Relative luminance.
fn luminance(color: [u8; 3]) -> f64 {
    let [r, g, b] = color.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}
