//! Natural order of names.

pub use crate::model::natural::natural;
