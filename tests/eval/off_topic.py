"""Questions that no conversation between two acquaintances answers."""

from typing import Final

__all__ = ["OFF_TOPIC"]

OFF_TOPIC: Final = tuple(
    line.strip()
    for line in """
    What is the melting point of tungsten?
    Which port does PostgreSQL listen on by default?
    How do I reverse a linked list in C?
    Who signed the Treaty of Westphalia?
    What is the airspeed record for a propeller aircraft?
    How many moons does Neptune have?
    What does the HTTP status 418 mean?
    Which enzyme unwinds DNA during replication?
    How is the Gini coefficient computed?
    What is the boiling point of liquid nitrogen in kelvin?
    Which treaty created the European Coal and Steel Community?
    How do you file a patent in Switzerland?
    What is the chemical formula of sodium thiosulfate?
    Which Roman emperor built the wall across northern Britain?
    How do I mount an NFS share read-only?
    What voltage does a USB-C charger negotiate at most?
    Who proved that there are infinitely many primes?
    What is the tax rate on dividends in Estonia?
    How deep is the Mariana Trench?
    Which kernel parameter sets the maximum number of open files?
    What is the tensile strength of Kevlar?
    How do tokamaks confine plasma?
    Which composer wrote The Art of Fugue?
    What is the half-life of carbon-14?
    How do I configure BGP route reflectors?
    What is the capital of Burkina Faso?
    Which cipher did the Enigma machine use?
    How many bits are in an IPv6 address?
    What caused the Permian extinction?
    How does a differential gear work?
    Which year did the Ottoman Empire take Constantinople?
    What is the Reynolds number of a laminar pipe flow?
    How do I renew a Kubernetes cluster certificate?
    What is the gestation period of an African elephant?
    Which metal has the highest electrical conductivity?
    How are Basel III capital ratios defined?
    What is the difference between a stack and a heap allocation?
    Which glacier is the longest in Europe?
    How do vaccines with messenger RNA work?
    What is the torque specification of an M8 bolt?
    Which language family does Basque belong to?
    How is crude oil fractionated in a refinery?
    What does the Heisenberg uncertainty principle state?
    Who designed the Sydney Opera House?
    How do I tune the garbage collector of the JVM?
    What is the legal speed limit on Italian motorways?
    Which planet rotates on its side?
    How does a heat pump move energy uphill?
    What is the quorum of the United Nations Security Council?
    Which mineral is number ten on the Mohs scale?
    How do I calculate the inverse of a matrix?
    What is the frequency of concert pitch in hertz?
    Which bacterium causes tuberculosis?
    How long is a nautical mile in metres?
    What is the depreciation schedule for industrial machinery?
    Who discovered the neutron?
    How do I compile the Linux kernel with clang?
    What is the refractive index of diamond?
    Which dynasty built most of the Great Wall of China?
    How does a Hall effect sensor measure current?
    """.strip().splitlines()
)
"""Sixty."""
