//! The Merkle tree of RFC 6962: hashes, roots and proofs.
//!
//! Pure: it knows where the hash of a subtree stands, and leaves fetching it to others.

use sha2::{Digest, Sha256};

/// The hash of an entry or of a subtree.
pub(crate) type Hash = [u8; 32];

/// The hash of an entry.
pub(crate) fn leaf_hash(entry: &[u8]) -> Hash {
    let mut hash = Sha256::new();
    hash.update([0]);
    hash.update(entry);
    hash.finalize().into()
}

fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut hash = Sha256::new();
    hash.update([1]);
    hash.update(left);
    hash.update(right);
    hash.finalize().into()
}

/// The root of a tree without entries.
pub(crate) fn empty_root() -> Hash {
    Sha256::digest([]).into()
}

/// A perfect subtree: 2^`level` entries, the `index`th of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) level: u32,
    pub(crate) index: u64,
}

impl Node {
    /// The entry that completes it.
    pub(crate) fn completed_by(self) -> u64 {
        ((self.index + 1) << self.level) - 1
    }
}

/// The perfect subtrees of a tree, from large to small: all that is needed to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    size: u64,
    /// One for each bit that is set in the size, from high to low.
    hashes: Vec<Hash>,
}

impl Frontier {
    /// A frontier whose hashes were kept elsewhere, in the order of [`perfect`] over the whole tree.
    pub(crate) fn of(size: u64, hashes: Vec<Hash>) -> Option<Frontier> {
        (hashes.len() as u64 == u64::from(size.count_ones())).then_some(Frontier { size, hashes })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds an entry. Returns its hash and that of each subtree it completes, from small to large.
    pub(crate) fn push(&mut self, leaf: Hash) -> Vec<Hash> {
        let mut completed = vec![leaf];
        let mut hash = leaf;
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.hashes.pop() else { break };
            hash = node_hash(&left, &hash);
            completed.push(hash);
        }
        self.hashes.push(hash);
        self.size += 1;
        completed
    }

    /// The root of the tree.
    pub(crate) fn root(&self) -> Hash {
        join(&self.hashes).unwrap_or_else(empty_root)
    }
}

/// The hash over subtrees that stand side by side, from large to small.
pub(crate) fn join(hashes: &[Hash]) -> Option<Hash> {
    hashes.iter().rev().copied().reduce(|right, left| node_hash(&left, &right))
}

/// The perfect subtrees of which the entries from `start` up to `end` are made, from left to right.
pub(crate) fn perfect(start: u64, end: u64) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut at = start;
    while at < end {
        let fits = (end - at).ilog2();
        let level = if at == 0 { fits } else { fits.min(at.trailing_zeros()) };
        nodes.push(Node { level, index: at >> level });
        at += 1 << level;
    }
    nodes
}

/// The subtrees, each as a range of entries, that prove that an entry is in a tree. None if it is not.
pub(crate) fn inclusion(index: u64, size: u64) -> Option<Vec<(u64, u64)>> {
    if index >= size {
        return None;
    }
    let (mut start, mut end) = (0, size);
    let mut proof = Vec::new();
    while end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            proof.push((middle, end));
            end = middle;
        } else {
            proof.push((start, middle));
            start = middle;
        }
    }
    proof.reverse();
    Some(proof)
}

/// The subtrees that prove that a tree grew out of a smaller one. None if it cannot have.
pub(crate) fn consistency(old: u64, new: u64) -> Option<Vec<(u64, u64)>> {
    if old > new {
        return None;
    }
    if old == 0 || old == new {
        return Some(Vec::new());
    }
    let (mut start, mut end) = (0, new);
    let mut proof = Vec::new();
    // Down to the subtree that the old tree ends with.
    while end != old {
        let middle = start + split(end - start);
        if old <= middle {
            proof.push((middle, end));
            end = middle;
        } else {
            proof.push((start, middle));
            start = middle;
        }
    }
    // Whoever has the old root knows this one already, if it is the whole old tree.
    if start != 0 {
        proof.push((start, end));
    }
    proof.reverse();
    Some(proof)
}

/// The largest power of two below a size of two or more.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

/// Whether a proof leads from an entry to a root.
pub(crate) fn includes(leaf: Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    // As RFC 9162, section 2.1.3.2.
    let (mut index, mut last) = (index, size - 1);
    let mut hash = leaf;
    for step in proof {
        if last == 0 {
            return false;
        }
        if index & 1 == 1 || index == last {
            hash = node_hash(step, &hash);
            while index & 1 == 0 && index != 0 {
                index >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, step);
        }
        index >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

/// Whether a proof leads from the root of a tree to that of a larger one that begins with it.
pub(crate) fn extends(old: (u64, &Hash), new: (u64, &Hash), proof: &[Hash]) -> bool {
    let ((old_size, old_root), (new_size, new_root)) = (old, new);
    if old_size > new_size {
        return false;
    }
    if old_size == new_size {
        return proof.is_empty() && old_root == new_root;
    }
    if old_size == 0 {
        return proof.is_empty() && *old_root == empty_root();
    }
    // As RFC 9162, section 2.1.4.2.
    let mut steps = proof.iter();
    let first = if old_size.is_power_of_two() { Some(old_root) } else { steps.next() };
    let Some(first) = first else { return false };
    let (mut index, mut last) = (old_size - 1, new_size - 1);
    while index & 1 == 1 {
        index >>= 1;
        last >>= 1;
    }
    let (mut of_old, mut of_new) = (*first, *first);
    for step in steps {
        if last == 0 {
            return false;
        }
        if index & 1 == 1 || index == last {
            of_old = node_hash(step, &of_old);
            of_new = node_hash(step, &of_new);
            while index & 1 == 0 && index != 0 {
                index >>= 1;
                last >>= 1;
            }
        } else {
            of_new = node_hash(&of_new, step);
        }
        index >>= 1;
        last >>= 1;
    }
    last == 0 && of_old == *old_root && of_new == *new_root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hex;

    /// The entries of the reference tests of Certificate Transparency.
    const ENTRIES: [&str; 8] =
        ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];

    /// And the roots over the first one, two, … of them.
    const ROOTS: [&str; 8] = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    fn unhex(text: &str) -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// A tree with all its nodes at hand.
    struct Tree {
        frontier: Frontier,
        completed: Vec<Vec<Hash>>,
    }

    impl Tree {
        fn of(size: u64) -> Tree {
            let mut tree = Tree { frontier: Frontier::default(), completed: Vec::new() };
            for entry in 0..size {
                let completed = tree.frontier.push(leaf_hash(&entry.to_be_bytes()));
                tree.completed.push(completed);
            }
            tree
        }

        fn range(&self, (start, end): (u64, u64)) -> Hash {
            let hashes: Vec<Hash> = perfect(start, end)
                .into_iter()
                .map(|node| self.completed[node.completed_by() as usize][node.level as usize])
                .collect();
            join(&hashes).unwrap()
        }

        fn root(&self, size: u64) -> Hash {
            if size == 0 { empty_root() } else { self.range((0, size)) }
        }
    }

    /// The definition in section 2.1 of RFC 6962, word for word.
    fn slow_root(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => empty_root(),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(split(leaves.len() as u64) as usize);
                node_hash(&slow_root(left), &slow_root(right))
            }
        }
    }

    #[test]
    fn roots_are_those_of_certificate_transparency() {
        assert_eq!(hex(&empty_root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let mut frontier = Frontier::default();
        for (entry, root) in ENTRIES.iter().zip(ROOTS) {
            frontier.push(leaf_hash(&unhex(entry)));
            assert_eq!(hex(&frontier.root()), root);
        }
    }

    #[test]
    fn roots_are_as_defined_for_every_size() {
        let leaves: Vec<Hash> = (0..70u64).map(|entry| leaf_hash(&entry.to_be_bytes())).collect();
        for size in 0..=70 {
            let tree = Tree::of(size);
            assert_eq!(tree.frontier.root(), slow_root(&leaves[..size as usize]), "{size}");
            assert_eq!(tree.root(size), tree.frontier.root(), "{size}");
        }
    }

    #[test]
    fn a_frontier_goes_on_from_where_it_was_kept() {
        let whole = Tree::of(70);
        for size in 0..=70 {
            let hashes = perfect(0, size)
                .into_iter()
                .map(|node| whole.completed[node.completed_by() as usize][node.level as usize]);
            assert_eq!(Frontier::of(size, hashes.collect()), Some(Tree::of(size).frontier), "{size}");
        }
        assert_eq!(Frontier::of(3, vec![[0; 32]]), None);
    }

    #[test]
    fn every_entry_of_every_tree_is_proved_to_be_in_it_and_nowhere_else() {
        let tree = Tree::of(70);
        for size in 0..=70 {
            let root = tree.root(size);
            for index in 0..size {
                let proof: Vec<Hash> =
                    inclusion(index, size).unwrap().into_iter().map(|range| tree.range(range)).collect();
                let leaf = leaf_hash(&index.to_be_bytes());
                assert!(includes(leaf, index, size, &proof, &root), "{index} of {size}");
                assert!(!includes(leaf, index + 1, size, &proof, &root), "{index} of {size}, moved");
                assert!(!includes([0; 32], index, size, &proof, &root), "{index} of {size}, changed");
                assert!(!includes(leaf, index, size, &proof, &[0; 32]), "{index} of {size}, another root");
                let longer = [proof.clone(), vec![[0; 32]]].concat();
                assert!(!includes(leaf, index, size, &longer, &root), "{index} of {size}, longer");
                if let Some((_, shorter)) = proof.split_last() {
                    assert!(!includes(leaf, index, size, shorter, &root), "{index} of {size}, shorter");
                }
            }
            assert_eq!(inclusion(size, size), None);
        }
    }

    #[test]
    fn every_tree_is_proved_to_grow_out_of_every_smaller_one() {
        let tree = Tree::of(70);
        for new in 0..=70 {
            for old in 0..=new {
                let proof: Vec<Hash> =
                    consistency(old, new).unwrap().into_iter().map(|range| tree.range(range)).collect();
                let (old_root, new_root) = (tree.root(old), tree.root(new));
                assert!(extends((old, &old_root), (new, &new_root), &proof), "{old} to {new}");
                assert!(!extends((old, &[0; 32]), (new, &new_root), &proof), "{old} to {new}, fork");
                if old > 0 {
                    assert!(!extends((old, &old_root), (new, &[0; 32]), &proof), "{old} to {new}, fork");
                }
                let longer = [proof.clone(), vec![[0; 32]]].concat();
                assert!(!extends((old, &old_root), (new, &new_root), &longer), "{old} to {new}, longer");
                for wrong in 0..proof.len() {
                    let mut changed = proof.clone();
                    changed[wrong][0] ^= 1;
                    assert!(
                        !extends((old, &old_root), (new, &new_root), &changed),
                        "{old} to {new}, changed"
                    );
                }
            }
            assert_eq!(consistency(new + 1, new), None);
        }
    }
}
