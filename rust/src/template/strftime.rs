//! `strftime_now(format)`: C's strftime in the C locale for a given local time.

use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

struct LocalTime {
    year: i64,
    month: i64, // 1 to 12
    day: i64,
    day_of_year: i64, // from 1
    weekday: usize,   // 0 is Sunday
    hour: i64,
    minute: i64,
    second: i64,
}

impl LocalTime {
    /// The proleptic Gregorian date of a count of seconds since 1970. Years are counted from March, so that the leap
    /// day is the last of its year; 400 of them always have 146,097 days.
    fn new(seconds: i64) -> Self {
        let (days, second_of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let since_era_zero = days + 719_468; // from 0000-03-01
        let era = since_era_zero.div_euclid(146_097);
        let day_of_era = since_era_zero.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let day_of_year = if month <= 2 { day_from_march - 305 } else { day_from_march + 60 + i64::from(is_leap) };
        Self {
            year,
            month,
            day: day_from_march - (153 * month_from_march + 2) / 5 + 1,
            day_of_year,
            weekday: (days + 4).rem_euclid(7) as usize,
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }

    fn hour_of_half_day(&self) -> i64 {
        (self.hour + 11) % 12 + 1
    }
}

pub fn format(pattern: &str, seconds: i64) -> String {
    let time = LocalTime::new(seconds);
    let mut output = String::new();
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        let padded = characters.next_if_eq(&'-').is_none();
        match characters.next() {
            Some(directive) => append(&mut output, &time, directive, padded),
            None => output.push('%'),
        }
    }
    output
}

fn append(output: &mut String, time: &LocalTime, directive: char, padded: bool) {
    let mut number = |value: i64, width: usize| {
        let width = if padded { width } else { 1 };
        let _ = write!(output, "{value:0width$}");
    };
    match directive {
        'Y' => number(time.year, 1),
        'y' => number(time.year.rem_euclid(100), 2),
        'm' => number(time.month, 2),
        'd' => number(time.day, 2),
        'H' => number(time.hour, 2),
        'I' => number(time.hour_of_half_day(), 2),
        'M' => number(time.minute, 2),
        'S' => number(time.second, 2),
        'f' => number(0, 6),
        'j' => number(time.day_of_year, 3),
        'w' => number(time.weekday as i64, 1),
        'e' if padded => *output += &format!("{:2}", time.day),
        'e' => number(time.day, 1),
        'B' => *output += MONTHS[time.month as usize - 1],
        'b' | 'h' => *output += &MONTHS[time.month as usize - 1][..3],
        'A' => *output += WEEKDAYS[time.weekday],
        'a' => *output += &WEEKDAYS[time.weekday][..3],
        'p' => *output += if time.hour < 12 { "AM" } else { "PM" },
        'F' => *output += &format!("{}-{:02}-{:02}", time.year, time.month, time.day),
        'D' | 'x' => *output += &format!("{:02}/{:02}/{:02}", time.month, time.day, time.year.rem_euclid(100)),
        'T' | 'X' => *output += &format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second),
        'R' => *output += &format!("{:02}:{:02}", time.hour, time.minute),
        'c' => {
            let (weekday, month) = (&WEEKDAYS[time.weekday][..3], &MONTHS[time.month as usize - 1][..3]);
            let clock = format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
            *output += &format!("{weekday} {month} {:2} {clock} {}", time.day, time.year);
        }
        'n' => output.push('\n'),
        't' => output.push('\t'),
        '%' => output.push('%'),
        other => {
            output.push_str(if padded { "%" } else { "%-" });
            output.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn directives_print_as_in_c() {
        let moment = 1_764_428_405; // Saturday 2025-11-29 15:00:05
        assert_eq!(format("%d %B %Y, %A", moment), "29 November 2025, Saturday");
        assert_eq!(format("%Y-%m-%dT%H:%M:%S %j", moment), "2025-11-29T15:00:05 333");
        assert_eq!(
            format("%-I:%M %p %b %a %y %e %F %T %R %D", moment),
            "3:00 PM Nov Sat 25 29 2025-11-29 15:00:05 15:00 11/29/25"
        );
        assert_eq!(format("%c", moment), "Sat Nov 29 15:00:05 2025");
        assert_eq!(format("100%% %", moment), "100% %");
    }

    #[test]
    fn the_calendar_holds_at_its_edges() {
        assert_eq!(format("%F %A %j", 0), "1970-01-01 Thursday 001");
        assert_eq!(format("%F %T", -1), "1969-12-31 23:59:59");
        assert_eq!(format("%F %j", 951_782_400), "2000-02-29 060");
        assert_eq!(format("%F %j", 951_868_800), "2000-03-01 061");
        assert_eq!(format("%F %j", 4_107_542_400), "2100-03-01 060");
        assert_eq!(format("%F %j", 978_220_800), "2000-12-31 366");
        assert_eq!(format("%I %p", 0), "12 AM");
    }
}
