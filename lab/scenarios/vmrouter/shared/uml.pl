# SPDX-License-Identifier: Apache-2.0
#
# uml.pl LINUX ARGUMENT...: runs user-mode Linux on a CPU that has more registers than it knows.
#
# User-mode Linux has room for the registers up to AVX-512. With AMX the kernel refuses to take so few
# (EFAULT of PTRACE_SETREGSET), and the guest ends with "ptrace set fp regs failed, errno = 14". Where
# the kernel knows no register set NT_X86_XSTATE, user-mode Linux uses PTRACE_SETFPREGS, which works on
# every CPU. So a seccomp filter answers EINVAL when it asks for that set. User-mode Linux then loses what is
# above the 128 bits of SSE's registers at each page fault: glibc in the guest must not use AVX, and gets a variable of
# the environment that says so.
use strict;
use warnings;

die "usage: uml.pl LINUX ARGUMENT...\n" unless @ARGV;
# The numbers are those of x86-64, as user-mode Linux itself is there alone.
my ($load, $unless, $return) = (0x20, 0x15, 0x06); # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
my @filter = (
	[$load, 0, 0, 0],           # seccomp_data.nr
	[$unless, 0, 5, 101],       # ptrace
	[$load, 0, 0, 16],          # .args[0]
	[$unless, 0, 3, 0x4204],    # PTRACE_GETREGSET
	[$load, 0, 0, 32],          # .args[2]
	[$unless, 0, 1, 0x202],     # NT_X86_XSTATE
	[$return, 0, 0, 0x50016],   # SECCOMP_RET_ERRNO, EINVAL
	[$return, 0, 0, 0x7fff0000], # SECCOMP_RET_ALLOW
);
my $program = join '', map { pack 'SCCL', @$_ } @filter;
my $prctl = 157;
syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "uml.pl: PR_SET_NO_NEW_PRIVS: $!\n";
my $sock_fprog = pack 'Sx6P', scalar @filter, $program;
syscall($prctl, 22, 2, $sock_fprog) == 0 or die "uml.pl: PR_SET_SECCOMP: $!\n";
my ($uml, @arguments) = @ARGV;
my $glibc = 'GLIBC_TUNABLES=glibc.cpu.hwcaps=-XSAVEC,-AVX,-AVX2,-AVX_Fast_Unaligned_Load,-AVX512F,-AVX512VL,-AVX512BW';
exec { $uml } $uml, $glibc, @arguments or die "uml.pl: $uml: $!\n";
