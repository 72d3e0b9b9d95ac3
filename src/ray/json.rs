//! Tolerant parsing of Ray's JSON: bare `NaN`, numbers in strings, nulls, optional fields.
//!
//! Typed rows are parsed from the bytes without an intermediate tree. A field of the wrong type counts as missing and
//! an element of the wrong type is left out, so that one bad row does not invalidate the whole response.

use super::RayError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Parses a body. Invalid UTF-8 and Python's `NaN` and `Infinity` need a second pass, and are no error.
pub fn read<T: for<'de> Deserialize<'de>>(route: &str, body: &[u8]) -> Result<T, RayError> {
    read_with(route, body, |text| serde_json::from_str(text))
}

/// [`read`] for rows that borrow from the body: `make` parses them and returns what it built from them.
pub fn read_with<T>(
    route: &str,
    body: &[u8],
    make: impl Fn(&str) -> Result<T, serde_json::Error>,
) -> Result<T, RayError> {
    let text = String::from_utf8_lossy(body);
    let error = match make(&text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if text.trim_start().starts_with('<') {
        return Err(RayError::NotRay(format!("{route} returned HTML")));
    }
    make(&without_nan(&text))
        .map_err(|_| RayError::Malformed { route: route.to_owned(), why: error.to_string() })
}

/// The text with `NaN`, `Infinity` and `-Infinity` outside strings replaced by `null`.
fn without_nan(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "Infinity", "-Infinity"].iter().find(|w| !quoted && rest.starts_with(**w));
        if let Some(word) = word {
            out.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let mut taken = c.len_utf8();
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => taken += rest[taken..].chars().next().map_or(0, char::len_utf8),
            _ => {}
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// A number, or a string that contains one; anything else reads as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Num(pub Option<f64>);

impl Num {
    /// As a whole number; `None` when absent, negative or beyond 2^53.
    pub fn whole(self) -> Option<u64> {
        self.0.filter(|n| (0.0..9.007_199_254_740_992e15).contains(n)).map(|n| n as u64)
    }

    /// Milliseconds since the Unix epoch; zero means "not yet" in Ray.
    pub fn millis(self) -> Option<crate::model::Timestamp> {
        let ms = i64::try_from(self.whole()?).ok()?;
        (ms > 0).then(|| crate::model::Timestamp::from_millis(ms))
    }
}

/// A string, borrowed from the body where it holds no escapes. Anything but a string reads as empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Str<'a>(pub Cow<'a, str>);

impl Str<'_> {
    /// The string as text of a cluster.
    pub fn text(&self) -> crate::model::Text {
        crate::model::Text::from(self.0.as_ref())
    }

    /// Whether it is empty or was missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A boolean; anything else reads as false.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flag(pub bool);

/// An object; anything else reads as its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loose<T>(pub T);

/// The objects of a list; anything else in it is left out, and anything but a list reads as empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<T>(pub Vec<T>);

/// An object with arbitrary keys; anything else reads as empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T>(pub BTreeMap<String, T>);

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Writes the visitor methods that skip a value of the wrong type and return `$default`.
macro_rules! ignore {
    ($default:expr; $($method:ident: $type:ty),*) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> { Ok($default) })*
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok($default) }
    };
    (seq $default:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($default)
        }
    };
    (map $default:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($default)
        }
    };
}

struct NumVisitor;

impl<'de> Visitor<'de> for NumVisitor {
    type Value = Num;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_i64<E>(self, n: i64) -> Result<Num, E> {
        Ok(Num(Some(n as f64)))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Num, E> {
        Ok(Num(Some(n as f64)))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Num, E> {
        Ok(Num(Some(n)))
    }

    fn visit_str<E>(self, s: &str) -> Result<Num, E> {
        Ok(Num(s.trim().parse().ok().filter(|n: &f64| n.is_finite())))
    }

    ignore!(Num(None); visit_bool: bool);
    ignore!(seq Num(None));
    ignore!(map Num(None));
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NumVisitor)
    }
}

struct StrVisitor;

impl<'de> Visitor<'de> for StrVisitor {
    type Value = Str<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, s: &'de str) -> Result<Str<'de>, E> {
        Ok(Str(Cow::Borrowed(s)))
    }

    fn visit_str<E>(self, s: &str) -> Result<Str<'de>, E> {
        Ok(Str(Cow::Owned(s.to_owned())))
    }

    ignore!(Str::default(); visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
    ignore!(seq Str::default());
    ignore!(map Str::default());
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(StrVisitor)
    }
}

struct FlagVisitor;

impl<'de> Visitor<'de> for FlagVisitor {
    type Value = Flag;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a boolean")
    }

    fn visit_bool<E>(self, b: bool) -> Result<Flag, E> {
        Ok(Flag(b))
    }

    ignore!(Flag(false); visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
    ignore!(seq Flag(false));
    ignore!(map Flag(false));
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(FlagVisitor)
    }
}

struct LooseVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LooseVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    ignore!(None; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
    ignore!(seq None);
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(LooseVisitor(PhantomData)).map(|v| Self(v.unwrap_or_default()))
    }
}

/// An element of [`Rows`]: `None` unless it is an object.
struct Row<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Row<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(LooseVisitor(PhantomData)).map(Self)
    }
}

struct RowsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for RowsVisitor<T> {
    type Value = Rows<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rows<T>, A::Error> {
        let mut rows = Vec::new();
        while let Some(Row(row)) = seq.next_element()? {
            rows.extend(row);
        }
        Ok(Rows(rows))
    }

    ignore!(Rows::default(); visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
    ignore!(map Rows::default());
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(RowsVisitor(PhantomData))
    }
}

struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
    type Value = Table<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<T>, A::Error> {
        let mut table = BTreeMap::new();
        while let Some((key, value)) = map.next_entry()? {
            table.insert(key, value);
        }
        Ok(Table(table))
    }

    ignore!(Table::default(); visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
    ignore!(seq Table::default());
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(TableVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Line<'a> {
        #[serde(borrow)]
        id: Str<'a>,
        at: Num,
        on: Flag,
        extra: Loose<Inner>,
        all: Table<Num>,
    }

    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        n: Num,
    }

    fn ids(body: &[u8]) -> Result<Vec<String>, RayError> {
        read_with("x", body, |b| {
            let rows: Rows<Line> = serde_json::from_str(b)?;
            Ok(rows.0.into_iter().map(|l| l.id.0.into_owned()).collect())
        })
    }

    #[test]
    fn python_json_is_read() {
        let body =
            br#"[{"id":"NaN \" NaN","at":NaN,"all":{"a":-Infinity,"b":"7"}},{"id":"b","at":Infinity}]"#;
        let rows: Vec<f64> = read_with("x", body, |b| {
            let rows: Rows<Line> = serde_json::from_str(b)?;
            assert!(rows.0.iter().all(|l| l.at.0.is_none()));
            Ok(rows.0[0].all.0.values().filter_map(|n| n.0).collect())
        })
        .unwrap();
        assert_eq!(rows, [7.0]);
        assert_eq!(ids(br#"[{"id":"a\nb"},null,3,"x",[],{"id":null},{"at":{}}]"#).unwrap(), ["a\nb", "", ""]);
        assert_eq!(ids(b"[{\"id\":\"a\xff\"}]").unwrap(), ["a\u{fffd}"]);
    }

    #[test]
    fn a_truncated_response_and_html_are_different_errors() {
        assert!(matches!(ids(br#"[{"id":"a"},{"id"#), Err(RayError::Malformed { .. })));
        assert!(matches!(ids(b"\n<!doctype html><html>"), Err(RayError::NotRay(_))));
    }

    #[test]
    fn the_largest_number_that_ray_sends_reads_as_absent() {
        let n: Num = read("x", b"18446744073709551615").unwrap();
        assert_eq!((n.whole(), n.millis()), (None, None));
    }

    fn anything() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,8}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map("id|at|on|extra|all|n", inner, 0..4)
                    .prop_map(|m| m.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_bad_row_does_not_remove_good_ones(bad in prop::collection::vec(anything(), 0..6)) {
            let mut rows = bad;
            rows.insert(rows.len() / 2, serde_json::json!({"id": "good", "at": "5", "extra": {"n": 1}}));
            let body = serde_json::to_vec(&rows).unwrap();
            prop_assert!(ids(&body).unwrap().contains(&"good".to_owned()));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = ids(&body);
        }
    }
}
