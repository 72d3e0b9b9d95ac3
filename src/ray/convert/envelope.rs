//! What the dashboard wraps its answers in: `{"result": true, "msg": "", "data": {...}}`.

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

/// `data.result` of the state API (`/api/v0/*`): rows, and how many there would have been.
#[derive(Deserialize)]
#[serde(default, bound = "T: Deserialize<'de>")]
pub struct Listed<T> {
    /// Rows.
    pub result: Rows<T>,
    /// How many there were before the limit; more than the rows when the list was cut, of which Ray says nothing.
    pub num_filtered: Num,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { result: Rows::default(), num_filtered: Num::default() }
    }
}

/// `data` of an answer. An object without any is not Ray's.
pub fn data<'a, T: Deserialize<'a> + Default>(text: &'a str) -> Result<T, serde_json::Error> {
    let answer: Envelope<Loose<T>> = serde_json::from_str(text)?;
    answer.data.map(|d| d.0).ok_or_else(|| Error::missing_field("data"))
}

/// `data.result` of an answer.
pub fn result<'a, T: Deserialize<'a> + Default>(text: &'a str) -> Result<T, serde_json::Error> {
    let answer: Envelope<ResultOf<Loose<T>>> = serde_json::from_str(text)?;
    let result = answer.data.and_then(|d| d.result);
    result.map(|r| r.0).ok_or_else(|| Error::missing_field("data.result"))
}

/// The list of the state API.
pub fn listed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Listed<T>, serde_json::Error> {
    result(text)
}
