//! Which columns of a table are shown, and in which order.

/// The columns of a table by their index in its kind: from left to right, each with whether it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    order: Vec<(usize, bool)>,
    /// The default columns.
    default: Vec<(usize, bool)>,
    /// Whether all of them are shown.
    pub is_wide: bool,
}

impl Shown {
    /// Starts with the default columns.
    pub fn new(default: Vec<(usize, bool)>) -> Self {
        Self { order: default.clone(), default, is_wide: false }
    }

    /// All columns, from left to right.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|(index, _)| *index)
    }

    /// The shown columns, from left to right.
    pub fn shown(&self) -> impl Iterator<Item = usize> {
        let is_wide = self.is_wide;
        self.order.iter().filter(move |(_, is_shown)| is_wide || *is_shown).map(|(index, _)| *index)
    }

    /// The chosen columns; `None` if they are the default ones.
    pub fn chosen(&self) -> Option<Vec<usize>> {
        let shown = |order: &[(usize, bool)]| order.iter().filter(|c| c.1).map(|c| c.0).collect();
        let chosen: Vec<usize> = shown(&self.order);
        (chosen != shown(&self.default)).then_some(chosen)
    }

    /// Shows these columns in this order; if none of them exists, the default ones.
    pub fn choose(&mut self, chosen: &[usize]) {
        self.order = self.ordered(chosen);
    }

    /// Makes these columns the default ones, and shows them.
    pub fn set_default(&mut self, default: &[usize]) {
        self.default = self.ordered(default);
        self.order.clone_from(&self.default);
    }

    /// These columns in this order. Each of the others is hidden after the one that it follows by default, so that it
    /// reappears at its expected position.
    fn ordered(&self, chosen: &[usize]) -> Vec<(usize, bool)> {
        let mut order: Vec<(usize, bool)> = Vec::with_capacity(self.default.len());
        for index in chosen {
            let is_there = |order: &[(usize, bool)]| order.iter().any(|(other, _)| other == index);
            if is_there(&self.default) && !is_there(&order) {
                order.push((*index, true));
            }
        }
        if order.is_empty() {
            return self.default.clone();
        }
        let mut before = None;
        for (index, _) in &self.default {
            let at = |order: &[(usize, bool)], wanted| order.iter().position(|(other, _)| *other == wanted);
            if at(&order, *index).is_none() {
                let behind = before.and_then(|before| at(&order, before)).map_or(0, |at| at + 1);
                order.insert(behind, (*index, false));
            }
            before = Some(*index);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use crate::app::table::columns::*;
    use proptest::prelude::*;

    /// Five columns, of which the last is hidden by default.
    fn five() -> Shown {
        Shown::new((0..5).map(|index| (index, index < 4)).collect())
    }

    fn shown(columns: &Shown) -> Vec<usize> {
        columns.shown().collect()
    }

    #[test]
    fn columns_are_shown_as_chosen_and_all_of_them_in_a_wide_table() {
        let mut columns = five();
        assert_eq!((shown(&columns), columns.chosen()), (vec![0, 1, 2, 3], None));
        columns.choose(&[3, 0, 4]);
        assert_eq!((shown(&columns), columns.chosen()), (vec![3, 0, 4], Some(vec![3, 0, 4])));
        columns.is_wide = true;
        assert_eq!(
            shown(&columns),
            [3, 0, 1, 2, 4],
            "each hidden column comes after the one that it follows by default"
        );
        assert_eq!(columns.chosen(), Some(vec![3, 0, 4]), "wide or not");
        columns.choose(&[0, 1, 2, 3]);
        assert_eq!(columns.chosen(), None, "the default columns");
    }

    #[test]
    fn unknown_and_duplicate_columns_are_ignored() {
        let mut columns = five();
        columns.choose(&[2, 9, 2, 1]);
        assert_eq!(shown(&columns), [2, 1]);
        columns.choose(&[9]);
        assert_eq!(shown(&columns), [0, 1, 2, 3]);
    }

    #[test]
    fn the_default_columns_come_from_the_settings() {
        let mut columns = five();
        columns.set_default(&[4, 1]);
        assert_eq!((shown(&columns), columns.chosen()), (vec![4, 1], None));
        columns.choose(&[1]);
        assert_eq!(columns.chosen(), Some(vec![1]));
        columns.choose(&[]);
        assert_eq!(shown(&columns), [4, 1]);
    }

    proptest! {
        #[test]
        fn no_column_is_lost(chosen in proptest::collection::vec(0_usize..8, 0..8), default in proptest::collection::vec(0_usize..8, 0..8)) {
            let mut columns = five();
            columns.set_default(&default);
            columns.choose(&chosen);
            let mut all: Vec<usize> = columns.all().collect();
            all.sort_unstable();
            prop_assert_eq!(all, [0, 1, 2, 3, 4]);
            prop_assert!(columns.shown().next().is_some());
        }
    }
}
