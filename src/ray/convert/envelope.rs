//! The envelope of the dashboard's responses: `{"result": true, "msg": "", "data": {...}}`.

use super::super::json::{Loose, Num, Rows};
use serde::Deserialize;
use serde::de::Error;

#[derive(Deserialize)]
struct Envelope<T> {
    data: Option<T>,
}

#[derive(Deserialize)]
struct ResultOf<T> {
    result: Option<T>,
}

/// `data.result` of the state API (`/api/v0/*`): rows, and their total number.
#[derive(Deserialize)]
#[serde(default, bound = "T: Deserialize<'de>")]
pub struct Listed<T> {
    pub result: Rows<T>,
    /// Number of rows before the limit: larger than the number of rows when Ray has silently truncated the list.
    pub num_filtered: Num,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { result: Rows::default(), num_filtered: Num::default() }
    }
}

impl<T> Listed<T> {
    /// Whether rows are missing.
    pub fn is_cut(&self) -> bool {
        self.num_filtered.0.is_some_and(|all| all > self.result.0.len() as f64)
    }
}

/// `data` of a response. A response without `data` is not from Ray.
pub fn data<'a, T: Deserialize<'a> + Default>(text: &'a str) -> Result<T, serde_json::Error> {
    let answer: Envelope<Loose<T>> = serde_json::from_str(text)?;
    answer.data.map(|d| d.0).ok_or_else(|| Error::missing_field("data"))
}

/// `data.result` of a response.
pub fn result<'a, T: Deserialize<'a> + Default>(text: &'a str) -> Result<T, serde_json::Error> {
    let answer: Envelope<ResultOf<Loose<T>>> = serde_json::from_str(text)?;
    let result = answer.data.and_then(|d| d.result);
    result.map(|r| r.0).ok_or_else(|| Error::missing_field("data.result"))
}

/// The list of the state API.
pub fn listed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Listed<T>, serde_json::Error> {
    result(text)
}
