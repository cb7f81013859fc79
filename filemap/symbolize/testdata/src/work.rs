use std::collections::HashMap;

fn main() {
    let mut m: HashMap<String, Vec<u64>> = HashMap::new();
    for i in 0..100u64 {
        m.entry(format!("{}", i % 7)).or_default().push(i);
    }
    let mut k: Vec<_> = m.iter().map(|(a, b)| (a.clone(), b.iter().sum::<u64>())).collect();
    k.sort();
    println!("{:?}", k);
}
