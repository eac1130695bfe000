// named.rs - allocations of Rust's collections, boxes and generics, whose numbers by function are known; see test_names.
//
// SPDX-License-Identifier: GPL-2.0-or-later
use std::collections::{BTreeMap, HashMap};

#[inline(never)]
fn black_box<T>(value: T) -> T {
    let same = unsafe { std::ptr::read_volatile(&value) };
    std::mem::forget(value);
    same
}

trait Shape {
    fn area(&self) -> u64;
}
struct Square {
    side: [u64; 4],
}
impl Shape for Square {
    fn area(&self) -> u64 {
        self.side[0] * self.side[0]
    }
}

#[inline(never)]
fn numbers() {
    for _ in 0..10 {
        let v: Vec<u64> = Vec::with_capacity(100);
        black_box(&v);
    }
}

#[inline(never)]
fn texts() {
    for _ in 0..20 {
        let s = String::from("exactly thirty-two bytes of text");
        black_box(&s);
    }
}

#[inline(never)]
fn table() {
    let mut m: HashMap<u64, u64> = HashMap::with_capacity(10);
    m.insert(1, 2);
    black_box(&m);
}

#[inline(never)]
fn ordered() {
    let mut m: BTreeMap<u64, u64> = BTreeMap::new();
    m.insert(1, 2);
    black_box(&m);
}

#[inline(never)]
fn shapes() {
    for i in 0..7 {
        let b: Box<dyn Shape> = Box::new(Square { side: [i; 4] });
        black_box(b.area());
        black_box(&b);
    }
}

#[inline(never)]
fn grown() {
    let mut v: Vec<u32> = Vec::new();
    for i in 0..4 {
        v.push(i);
    }
    black_box(&v);
}

mod pool {
    pub struct Pool<T> {
        pub rows: Vec<Box<T>>,
    }
    impl<T: Clone> Pool<T> {
        #[inline(never)]
        pub fn fill(value: T, n: usize) -> Pool<T> {
            let mut rows = Vec::with_capacity(n);
            for _ in 0..n {
                rows.push(Box::new(value.clone()));
            }
            Pool { rows }
        }
    }
}

#[inline(never)]
fn closures() {
    let make = |n: usize| -> Vec<u8> { vec![1; n] };
    for _ in 0..9 {
        black_box(make(black_box(33)));
    }
}

#[inline]
fn innermost(n: usize) -> Vec<u8> {
    Vec::with_capacity(n)
}

#[inline]
fn inner(n: usize) -> Vec<u8> {
    innermost(n)
}

#[inline(never)]
fn inlined() {
    for _ in 0..11 {
        black_box(inner(black_box(44)));
    }
}

fn main() {
    numbers();
    texts();
    table();
    ordered();
    shapes();
    grown();
    black_box(&pool::Pool::fill([1u64; 5], 6).rows);
    closures();
    inlined();
}
