//! Mutates valid examples to test parsers of untrusted input.
//!
//! Each parser of hostile input has a test named `fuzz_...` that calls [`fuzz`]. `cargo nextest run` tries a fixed
//! number of inputs, always the same ones; `tests/fuzz` tries others for a given time. A parser may refuse any input,
//! and must neither panic nor violate what its entry asserts.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Number of inputs that a test tries.
const CASES: u32 = 400;
/// Environment variable: time in seconds for which a test tries random inputs instead.
const SECONDS: &str = "FUZZ_SECONDS";
/// Maximum size of an input in bytes: longer ones are slow and find few errors.
const MAX_BYTES: usize = 64 << 10;
/// Tokens that are likely to break parsers.
const TOKENS: [&[u8]; 28] = [
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b"\x1b[",
    b"\x1b]0;x\x07",
    b"\x7f",
    b"\xff",
    b"\xc2\x9b",
    b"\xe2\x80\xae",
    b"\xf0\x9f",
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1",
    b"18446744073709551616",
    b"{",
    b"[",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b": &a [*a]",
    b"<<: *a",
    b"!!binary x",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
];

/// A change of an input.
#[derive(Clone, Debug)]
enum Mutation {
    /// Flips a bit.
    Flip(Index, u8),
    /// Overwrites a byte.
    Set(Index, u8),
    /// Inserts a token.
    Insert(Index, Index),
    /// Removes a range.
    Cut(Index, Index),
    /// Repeats a range a number of times.
    Repeat(Index, Index, u8),
    /// Truncates the input.
    End(Index),
    /// Replaces the rest with the end of another example.
    Splice(Index, Index, Index),
}

/// An input, printed as a literal that can be copied into a test.
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Calls `parse` with mutations of `seeds`.
pub fn fuzz(seeds: &[Vec<u8>], parse: impl Fn(&[u8])) {
    assert!(!seeds.is_empty(), "no example");
    for seed in seeds {
        parse(seed);
    }
    let input = (any::<Index>(), vec(mutation(), 1..12)).prop_map(|(seed, mutations)| {
        let seed = seed.get(seeds).clone();
        Input(mutations.iter().fold(seed, |bytes, mutation| apply(bytes, mutation, seeds)))
    });
    let run = |mut runner: TestRunner| {
        let tried = runner.run(&input, |input| {
            parse(&input.0);
            Ok(())
        });
        tried.unwrap_or_else(|e| panic!("{e}"));
    };
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let Some(seconds) = std::env::var(SECONDS).ok().and_then(|s| s.parse().ok()) else {
        let always_the_same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        return run(TestRunner::new_with_rng(config, always_the_same));
    };
    let (end, mut tried) = (Instant::now() + Duration::from_secs(seconds), 0u64);
    while Instant::now() < end {
        run(TestRunner::new(config.clone()));
        tried += u64::from(CASES);
    }
    // Not captured by the test harness, so that it is visible during a long run.
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(io::stderr(), "{name}: {tried} inputs");
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), 0u8..8).prop_map(|(a, bit)| Mutation::Flip(a, bit)),
        2 => (at(), any::<u8>()).prop_map(|(a, byte)| Mutation::Set(a, byte)),
        4 => (at(), at()).prop_map(|(a, token)| Mutation::Insert(a, token)),
        2 => (at(), at()).prop_map(|(a, b)| Mutation::Cut(a, b)),
        2 => (at(), at(), 1u8..20).prop_map(|(a, b, times)| Mutation::Repeat(a, b, times)),
        1 => at().prop_map(Mutation::End),
        1 => (at(), at(), at()).prop_map(|(a, seed, b)| Mutation::Splice(a, seed, b)),
    ]
}

fn apply(mut bytes: Vec<u8>, mutation: &Mutation, seeds: &[Vec<u8>]) -> Vec<u8> {
    let offset = |index: &Index| index.index(bytes.len() + 1);
    match mutation {
        Mutation::Flip(at, bit) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Mutation::Set(at, byte) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Mutation::Flip(..) | Mutation::Set(..) => {}
        Mutation::Insert(at, token) => {
            let at = offset(at);
            bytes.splice(at..at, token.get(&TOKENS).iter().copied());
        }
        Mutation::Cut(a, b) => {
            let (a, b) = (offset(a), offset(b));
            bytes.drain(a.min(b)..a.max(b));
        }
        Mutation::Repeat(a, b, times) => {
            let (a, b) = (offset(a), offset(b));
            let part = bytes[a.min(b)..a.max(b)].repeat(usize::from(*times));
            let end = a.max(b);
            bytes.splice(end..end, part);
        }
        Mutation::End(at) => {
            let at = offset(at);
            bytes.truncate(at);
        }
        Mutation::Splice(at, seed, from) => {
            let other = seed.get(seeds);
            let at = offset(at);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

#[test]
#[should_panic(expected = "minimal failing input: b\"")]
fn failing_inputs_are_found_and_printed() {
    fuzz(&[b"abc".to_vec()], |bytes| assert!(!bytes.contains(&0)));
}
