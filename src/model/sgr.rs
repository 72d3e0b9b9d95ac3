//! Text colors set with the escape sequence SGR (ECMA-48, 8.3.117; ISO 8613-6 for 256 and direct colors).

/// A color of an SGR sequence: from the terminal's palette, or 24-bit (ECMA-48, ITU T.416).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SgrColor {
    /// One of the 256 palette colors; the first 16 are defined by the terminal.
    Indexed(u8),
    /// Red, green, blue.
    Direct(u8, u8, u8),
}

/// Colors and attributes of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is set and reset by its own parameter")]
pub struct TextStyle {
    /// Foreground color; none for the terminal's default.
    pub color: Option<SgrColor>,
    /// Background color; none for the terminal's default.
    pub behind: Option<SgrColor>,
    /// Bold.
    pub bold: bool,
    /// Faint.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Foreground and background exchanged.
    pub reverse: bool,
}

impl TextStyle {
    /// Applies the parameters of one SGR sequence, e.g. `1;38;5;214`. Unsupported parameters, including those for
    /// concealed and blinking text, are ignored, so that no output is hidden.
    pub fn apply(&mut self, parameters: &str) {
        // Other characters occur in private sequences with the same final byte, e.g. xterm's `CSI > 4 ; 1 m`.
        if parameters.contains(|c: char| !c.is_ascii_digit() && c != ';' && c != ':') {
            return;
        }
        let mut left =
            parameters.split([';', ':']).map(|p| if p.is_empty() { Some(0) } else { p.parse::<u16>().ok() });
        while let Some(parameter) = left.next() {
            let Some(parameter) = parameter else { continue };
            match parameter {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underline = true,
                7 => self.reverse = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                27 => self.reverse = false,
                30..=37 => self.color = Some(SgrColor::Indexed((parameter - 30) as u8)),
                38 => self.color = further(&mut left).or(self.color),
                39 => self.color = None,
                40..=47 => self.behind = Some(SgrColor::Indexed((parameter - 40) as u8)),
                48 => self.behind = further(&mut left).or(self.behind),
                49 => self.behind = None,
                90..=97 => self.color = Some(SgrColor::Indexed((parameter - 90 + 8) as u8)),
                100..=107 => self.behind = Some(SgrColor::Indexed((parameter - 100 + 8) as u8)),
                _ => {}
            }
        }
    }

    /// Whether it has no colors and no attributes.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// The color that follows 38 or 48: `5;N` or `2;R;G;B`.
fn further(left: &mut impl Iterator<Item = Option<u16>>) -> Option<SgrColor> {
    let mut next = || left.next()?.and_then(|n| u8::try_from(n).ok());
    match next()? {
        5 => next().map(SgrColor::Indexed),
        2 => Some(SgrColor::Direct(next()?, next()?, next()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(parameters: &str) -> TextStyle {
        let mut style = TextStyle::default();
        style.apply(parameters);
        style
    }

    #[test]
    fn colors_of_all_kinds_are_parsed() {
        assert_eq!(style("31").color, Some(SgrColor::Indexed(1)));
        assert_eq!(
            style("1;97"),
            TextStyle { bold: true, color: Some(SgrColor::Indexed(15)), ..TextStyle::default() }
        );
        assert_eq!(
            style("38;5;214;4"),
            TextStyle { underline: true, color: Some(SgrColor::Indexed(214)), ..TextStyle::default() }
        );
        assert_eq!(style("48:2:1:2:3").behind, Some(SgrColor::Direct(1, 2, 3)));
    }

    #[test]
    fn resets_are_plain_and_unknown_parameters_are_ignored() {
        let mut all = style("1;2;3;4;7;31;42");
        all.apply("8;5;999;38;9");
        all.apply(">0");
        assert_eq!(all, style("1;2;3;4;7;31;42"));
        for reset in ["", "0", "22;23;24;27;39;49"] {
            let mut style = all;
            style.apply(reset);
            assert!(style.is_plain(), "{reset}");
        }
    }
}
