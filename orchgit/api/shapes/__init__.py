"""How objects look in requests and answers: Nomad's JSON."""
