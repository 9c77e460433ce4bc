//! The order in which choices are shown: random to look at, and the same everywhere.

/// The order in which the choices of a record are shown: the position in `order(..)` is the letter, the value is the
/// index of the choice.
///
/// A Fisher–Yates shuffle whose draws are a hash of the seed, the id and a counter: FNV-1a over the bytes, mixed by the
/// finaliser of splitmix64. With so few choices the remainder's bias is below 2^-60.
pub fn order(id: &str, seed: u64, choices: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..choices).collect();
    for last in (1..choices).rev() {
        let draw = hash(id, seed, last as u64) % (last as u64 + 1);
        // The remainder is at most `last`, an index.
        order.swap(last, draw as usize);
    }
    order
}

fn hash(id: &str, seed: u64, counter: u64) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(counter.to_le_bytes()).chain(id.bytes());
    let folded = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn orders_are_what_they_have_always_been() {
        let table =
            [("a", 0, 4), ("a", 1, 4), ("b", 0, 4), ("", 0, 4), ("a", 0, 2), ("a", 0, 1), ("a", 0, 0)];
        let orders: Vec<Vec<usize>> =
            table.iter().map(|(id, seed, choices)| order(id, *seed, *choices)).collect();
        let expected: [&[usize]; 7] =
            [&[3, 1, 2, 0], &[1, 0, 2, 3], &[0, 1, 3, 2], &[0, 2, 1, 3], &[0, 1], &[0], &[]];
        assert_eq!(orders, expected);
    }

    #[test]
    fn every_order_is_as_likely_as_any_other() {
        let mut counts = std::collections::BTreeMap::new();
        for id in 0..24_000 {
            *counts.entry(order(&format!("record {id}"), 7, 4)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }
}
