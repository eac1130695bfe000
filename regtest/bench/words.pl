# words.pl - benchmark: Perl as a C program. Counts words, turns them by regular expressions, sorts them;
# reads the file named.
# SPDX-License-Identifier: GPL-2.0-or-later
use strict;
use warnings;

my (%count, %turned);
open(my $in, '<', $ARGV[0]) or die "$ARGV[0]: $!\n";
while (my $line = <$in>) {
    $count{$1}++ while $line =~ /(\w+)/g;
    (my $other = lc $line) =~ s/([aeiou])(\w)/$2$1/g;
    $turned{ substr($other, 0, 12) } .= length $other;
}
my @most = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print scalar(@most), " $most[0] $count{$most[0]} ", scalar(keys %turned), "\n";
print join(',', map { "$_=$turned{$_}" } (sort keys %turned)[0 .. 4]), "\n";
