//! Tests: each built-in theme is readable on its background, and no state is shown by color alone.

use super::file::{BUILT_IN, ThemeFile};
use super::{Colors, Meaning, Theme, contrast};
use ratatui::style::{Color, Modifier, Style};

/// The sixteen colors of xterm; those of most other terminals are similar.
const XTERM: [(Color, u32); 16] = [
    (Color::Black, 0x00_0000),
    (Color::Red, 0xcd_0000),
    (Color::Green, 0x00_cd00),
    (Color::Yellow, 0xcd_cd00),
    (Color::Blue, 0x00_00ee),
    (Color::Magenta, 0xcd_00cd),
    (Color::Cyan, 0x00_cdcd),
    (Color::Gray, 0xe5_e5e5),
    (Color::DarkGray, 0x7f_7f7f),
    (Color::LightRed, 0xff_0000),
    (Color::LightGreen, 0x00_ff00),
    (Color::LightYellow, 0xff_ff00),
    (Color::LightBlue, 0x5c_5cff),
    (Color::LightMagenta, 0xff_00ff),
    (Color::LightCyan, 0x00_ffff),
    (Color::White, 0xff_ffff),
];
const BLACK: Color = Color::Rgb(0, 0, 0);
const WHITE: Color = Color::Rgb(255, 255, 255);

fn ratio(a: Color, b: Color) -> f64 {
    let [a, b] = [a, b].map(|color| match color {
        Color::Rgb(r, g, b) => [r, g, b],
        named => {
            let (_, rgb) = XTERM.iter().find(|(known, _)| *known == named).unwrap();
            let [_, r, g, b] = rgb.to_be_bytes();
            [r, g, b]
        }
    });
    contrast::ratio(a, b)
}

/// The contrast ratio of a style; `text` and `ground` are its default colors.
fn reads(style: Style, text: Color, ground: Color) -> f64 {
    ratio(style.fg.unwrap_or(text), style.bg.unwrap_or(ground))
}

/// A role's name and style.
type Named = (&'static str, Style);

/// The roles of text, and those of lines and less important text.
fn roles(theme: &Theme) -> ([Named; 10], [Named; 3]) {
    let text = [
        ("text", theme.text),
        ("heading", theme.heading),
        ("accent", theme.accent),
        ("good", theme.good),
        ("warn", theme.warn),
        ("bad", theme.bad),
        ("selected", theme.selected),
        ("marked", theme.marked),
        ("found", theme.found),
        ("found_here", theme.found_here),
    ];
    (text, [("dim", theme.dim), ("border", theme.border), ("focused", theme.focused)])
}

#[test]
fn full_colors_are_readable_on_the_background_of_their_theme() {
    for (name, _) in BUILT_IN.iter().filter(|(name, _)| *name != "mono") {
        let theme = ThemeFile::built_in(name).unwrap().theme(Colors::Full);
        let (ink, ground) = theme.canvas.unwrap();
        let least = if *name == "high-contrast" { 7.0 } else { 4.5 };
        let (texts, lines) = roles(&theme);
        for ((role, style), least) in texts.map(|r| (r, least)).into_iter().chain(lines.map(|r| (r, 3.0))) {
            let found = reads(style, ink, ground);
            assert!(found >= least, "{name}: {role} has {found:.2}:1, needs {least}:1");
        }
    }
}

#[test]
fn states_are_readable_on_a_selected_row() {
    for (name, _) in BUILT_IN.iter().filter(|(name, _)| *name != "mono") {
        let theme = ThemeFile::built_in(name).unwrap().theme(Colors::Full);
        let (ink, ground) = theme.canvas.unwrap();
        for role in [Meaning::Good, Meaning::Warn, Meaning::Bad, Meaning::Accent] {
            let found = reads(theme.selected_cell(role, theme.selected), ink, ground);
            assert!(found >= 3.0, "{name}: {role:?} has {found:.2}:1 on a selected row");
        }
        assert_eq!(theme.selected_cell(Meaning::Dim, theme.selected), theme.selected);
        let sixteen = ThemeFile::built_in(name).unwrap().theme(Colors::Sixteen);
        let cell = sixteen.selected_cell(Meaning::Bad, sixteen.selected);
        assert!(
            sixteen.selected.fg.is_none() || cell == sixteen.selected,
            "{name}: not known to be readable"
        );
    }
    let dark = ThemeFile::built_in("dark").unwrap().theme(Colors::Full);
    assert_eq!(dark.selected_cell(Meaning::Bad, dark.selected), Style { fg: dark.bad.fg, ..dark.selected });
}

#[test]
fn sixteen_colors_are_readable_on_their_terminals() {
    for (name, _) in BUILT_IN {
        let theme = ThemeFile::built_in(name).unwrap().theme(Colors::Sixteen);
        assert_eq!(theme.canvas, None, "{name}: the terminal's own colors only");
        // For a theme that may be used on both backgrounds, no color of xterm reaches 4.5:1 on both.
        let grounds: &[(Color, Color, f64)] = match *name {
            "dark" => &[(BLACK, WHITE, 4.5)],
            "light" => &[(WHITE, BLACK, 4.5)],
            _ => &[(BLACK, WHITE, 4.3), (WHITE, BLACK, 4.3)],
        };
        let (texts, lines) = roles(&theme);
        for (ground, ink, least) in grounds {
            for (role, style) in texts.iter().chain(&lines) {
                let found = reads(*style, *ink, *ground);
                assert!(found >= *least, "{name}: {role} has {found:.2}:1 on {ground:?}");
            }
        }
    }
}

#[test]
fn a_theme_without_colors_uses_none() {
    for (name, _) in BUILT_IN {
        let theme = ThemeFile::built_in(name).unwrap().theme(Colors::None);
        let (texts, lines) = roles(&theme);
        for (role, style) in texts.iter().chain(&lines) {
            assert!(style.fg.is_none() && style.bg.is_none(), "{name}: {role}");
        }
        // The cursor and search matches must still be distinguishable.
        assert_ne!(theme.selected, theme.text);
        assert_ne!(theme.selected, theme.marked);
        assert_ne!(theme.found, theme.found_here);
        assert!(theme.bad.add_modifier.contains(Modifier::BOLD));
    }
}
