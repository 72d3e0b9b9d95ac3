//! The colors that a program used in its output, as far as the terminal supports them.

use super::{Colors, Theme};
use crate::app::table::cell::Role;
use crate::model::{SgrColor, TextStyle};
use ratatui::style::{Color, Modifier, Style};

/// The sixteen colors of the terminal in order (ECMA-48, and `aixterm` for the bright ones).
const ANSI_COLORS: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// The colors that distinguish several items: blue, magenta and cyan, normal and bright. Red, yellow and green have a
/// meaning.
const HUES: [u8; Role::HUES] = [4, 5, 6, 12, 13, 14];

impl Theme {
    /// The style of one of several items to be distinguished; after the last one, the first one again.
    pub fn hue(&self, number: usize) -> Style {
        let color = Some(SgrColor::Indexed(HUES[number % HUES.len()]));
        self.text_style(TextStyle { color, ..TextStyle::default() })
    }

    /// The style of a look. Text in the same color as its background is shown without both.
    pub fn text_style(&self, style: TextStyle) -> Style {
        let nearest = |color: Option<SgrColor>| color.and_then(|color| nearest_color(color, self.colors));
        let (mut front, mut behind) = (nearest(style.color), nearest(style.behind));
        if front == behind {
            (front, behind) = (None, None);
        }
        if behind.is_none() {
            front = front.and_then(|front| self.on_ground(front));
        }
        let modifiers = [
            (style.bold, Modifier::BOLD),
            (style.dim, Modifier::DIM),
            (style.italic, Modifier::ITALIC),
            (style.underline, Modifier::UNDERLINED),
            (style.reverse, Modifier::REVERSED),
        ];
        let modifiers = modifiers.into_iter().filter(|(is_set, _)| *is_set).map(|(_, modifier)| modifier);
        Style { fg: front, bg: behind, add_modifier: modifiers.collect(), ..Style::default() }
    }
}

impl Theme {
    /// A readable form of a program's color on the background: of the sixteen, those that are too bright for a light
    /// background are replaced by colors of the theme.
    fn on_ground(&self, color: Color) -> Option<Color> {
        match color {
            Color::Yellow | Color::LightYellow if self.is_light => self.warn.fg,
            Color::Green | Color::LightGreen if self.is_light => self.good.fg,
            Color::Cyan | Color::LightCyan if self.is_light => self.accent.fg,
            Color::Gray | Color::White if self.is_light => None,
            color => Some(color),
        }
    }
}

/// The nearest supported color; `None` without colors.
fn nearest_color(color: SgrColor, colors: Colors) -> Option<Color> {
    match (color, colors) {
        (_, Colors::None) => None,
        (SgrColor::Indexed(n @ 0..16), _) => Some(ANSI_COLORS[usize::from(n)]),
        (SgrColor::Indexed(n), Colors::Full) => Some(Color::Indexed(n)),
        (SgrColor::Direct(r, g, b), Colors::Full) => Some(Color::Rgb(r, g, b)),
        (SgrColor::Indexed(n), Colors::Sixteen) => Some(nearest(of_256(n))),
        (SgrColor::Direct(r, g, b), Colors::Sixteen) => Some(nearest([r, g, b])),
    }
}

/// RGB values of xterm's colors from 16 on: a cube of six levels per component, then 24 greys.
fn of_256(n: u8) -> [u8; 3] {
    let Some(grey) = n.checked_sub(232) else {
        let n = n - 16;
        return [n / 36, n / 6 % 6, n % 6].map(|step| if step == 0 { 0 } else { 55 + 40 * step });
    };
    [8 + 10 * grey; 3]
}

/// One of the eight colors, by its strong components; bright if the light is strong. Greys stay greys.
fn nearest(light: [u8; 3]) -> Color {
    let most = light.into_iter().max().unwrap_or(0);
    let least = light.into_iter().min().unwrap_or(0);
    if most - least < 32 {
        return match most {
            0..64 => Color::Black,
            64..144 => Color::DarkGray,
            144..224 => Color::Gray,
            224.. => Color::White,
        };
    }
    let middle = least / 2 + most / 2;
    let bits = light.map(|part| usize::from(part > middle));
    ANSI_COLORS[bits[0] + 2 * bits[1] + 4 * bits[2] + if most > 215 { 8 } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::super::file::ThemeFile;
    use super::*;

    fn fg(color: SgrColor, colors: Colors) -> Option<Color> {
        Theme::new(colors).text_style(TextStyle { color: Some(color), ..TextStyle::default() }).fg
    }

    #[test]
    fn colors_are_mapped_to_those_of_the_terminal() {
        assert_eq!(fg(SgrColor::Indexed(1), Colors::Sixteen), Some(Color::Red));
        assert_eq!(fg(SgrColor::Indexed(214), Colors::Full), Some(Color::Indexed(214)));
        assert_eq!(fg(SgrColor::Indexed(196), Colors::Sixteen), Some(Color::LightRed));
        assert_eq!(fg(SgrColor::Indexed(28), Colors::Sixteen), Some(Color::Green));
        assert_eq!(fg(SgrColor::Indexed(244), Colors::Sixteen), Some(Color::DarkGray));
        assert_eq!(fg(SgrColor::Direct(20, 40, 230), Colors::Sixteen), Some(Color::LightBlue));
        let bold = TextStyle { color: Some(SgrColor::Indexed(1)), bold: true, ..TextStyle::default() };
        assert_eq!(Theme::new(Colors::None).text_style(bold), Style::new().add_modifier(Modifier::BOLD));
    }

    #[test]
    fn bright_colors_of_a_program_are_darker_on_a_light_background() {
        for colors in [Colors::Full, Colors::Sixteen] {
            let [light, dark] =
                ["light", "dark"].map(|name| ThemeFile::built_in(name).unwrap().theme(colors).on_terminal());
            let tag = TextStyle { color: Some(SgrColor::Indexed(3)), ..TextStyle::default() };
            assert_eq!(
                (light.text_style(tag).fg, dark.text_style(tag).fg),
                (light.warn.fg, Some(Color::Yellow))
            );
            // A background set by the program is kept as it is.
            let badge = TextStyle { behind: Some(SgrColor::Indexed(0)), ..tag };
            assert_eq!(light.text_style(badge).fg, Some(Color::Yellow));
        }
    }

    #[test]
    fn text_is_never_hidden_by_its_color() {
        let black = Some(SgrColor::Indexed(0));
        let hidden = TextStyle { color: black, behind: black, ..TextStyle::default() };
        assert_eq!(Theme::new(Colors::Full).text_style(hidden), Style::new());
    }
}
