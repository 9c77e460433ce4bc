//! Numbers as options take them.

pub fn number(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() { Ok(value) } else { Err("must be a finite number".to_owned()) }
}

pub fn at_least_zero(text: &str) -> Result<f32, String> {
    number(text).and_then(|v| if v >= 0.0 { Ok(v) } else { Err("must not be negative".to_owned()) })
}

pub fn positive(text: &str) -> Result<f32, String> {
    number(text).and_then(|v| if v > 0.0 { Ok(v) } else { Err("must be above 0".to_owned()) })
}

pub fn share(text: &str) -> Result<f32, String> {
    number(text)
        .and_then(|v| if (0.0..=1.0).contains(&v) { Ok(v) } else { Err("must be from 0 to 1".to_owned()) })
}

/// A share in double precision: 0.9 is a percentile here, and must not be 0.89999998.
pub fn exact_share(text: &str) -> Result<f64, String> {
    share(text)?;
    text.parse().map_err(|_| "not a number".to_owned())
}

pub fn positive_share(text: &str) -> Result<f32, String> {
    share(text).and_then(|v| if v > 0.0 { Ok(v) } else { Err("must be above 0".to_owned()) })
}

pub fn count(text: &str, least: usize) -> Result<usize, String> {
    let value: usize = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if value >= least { Ok(value) } else { Err(format!("must be at least {least}")) }
}

pub fn at_least_one(text: &str) -> Result<usize, String> {
    count(text, 1)
}

/// More would only be a slip of the finger, and an expensive one.
pub fn at_most(text: &str, most: usize) -> Result<usize, String> {
    let value = at_least_one(text)?;
    if value <= most { Ok(value) } else { Err(format!("must be at most {most}")) }
}

pub fn sequences(text: &str) -> Result<usize, String> {
    at_most(text, 65_536)
}

pub fn threads(text: &str) -> Result<usize, String> {
    at_most(text, 1024)
}

pub fn at_least_two(text: &str) -> Result<usize, String> {
    count(text, 2)
}
